// SharedMemoryForm::Kind::reduce_for_all: each rank reduces its slice for all ranks.
#include <algorithm>
#include <optional>

#include "engine/shared_memory/call.hpp"

namespace kolo::engine::shared_memory {
namespace {

constexpr std::size_t kLine = 64;
constexpr Wait kNever{&CommSlot::done, ~std::uint64_t{0}};

/// Cuts `count` elements among `size` ranks, or into so many shares, so that no two of them write in one
/// cache line of a buffer that begins with a line.
struct Slices {
  std::uint64_t count;
  std::uint64_t each;

  Slices(std::uint64_t elements, int size, std::size_t element_bytes) : count(elements) {
    const std::uint64_t line = std::max<std::uint64_t>(kLine / element_bytes, 1);
    const auto ranks = static_cast<std::uint64_t>(size);
    each = (elements + ranks * line - 1) / (ranks * line) * line;
  }
  std::uint64_t begin(int rank) const { return std::min(count, each * static_cast<std::uint64_t>(rank)); }
  std::uint64_t size(int rank) const { return begin(rank + 1) - begin(rank); }
};

/// Reduces `count` elements of all inputs, from element `begin` on, into all outputs.
void reduce_range(Call& call, std::uint64_t begin, std::uint64_t count) {
  const std::size_t element = call.shape->element_bytes;
  call.from.resize(call.inputs.size());
  call.to.resize(call.outputs.size());
  for (std::size_t r = 0; r < call.from.size(); ++r) {
    call.from[r] = call.inputs[r] + begin * element;
    call.to[r] = call.outputs[r] + begin * element;
  }
  call.fold(call.to.data(), call.to.size(), call.from.data(), call.from.size(), count, call.from.size());
}

/// All inputs and outputs are in shared memory: each rank reads its slice of every input and writes it to
/// every output. With K ranks that is K loads and K stores for each element of the slice, and no other
/// traffic. Or one rank (`call.owner`) does the whole call.
Task reduce_in_place(Call& call) {
  const std::size_t element = call.shape->element_bytes;
  const std::uint64_t count = call.shape->count;
  const Slices slices(count, call.size, element);
  std::uint64_t begin = slices.begin(call.rank);
  std::uint64_t end = begin + slices.size(call.rank);
  if (call.owner >= 0) {
    begin = 0;
    end = call.owner == call.rank ? count : 0;
  }
  const std::uint64_t step = std::max<std::uint64_t>(kPieceBytes / element, 1);
  for (std::uint64_t at = begin; at < end; at += step) {
    if (!call.begin_writing()) co_await kNever;
    reduce_range(call, at, std::min(step, end - at));
    if (at + step < end) co_await Wait{};
  }
  if (call.owner < 0) {
    co_await call.finish();
  } else {
    *call.done = call.number;  // published together with the next calls
    co_await Wait{.counter = &CommSlot::done, .target = call.number, .is_last = true};
  }
}

/// As reduce_in_place(), for ranks that share cores. Once all ranks have announced the call, the running
/// ranks take shares until none is left. Ranks that announced it earlier need not run again before their next
/// call.
Task reduce_by_shares(Call& call) {
  const Slices slices(call.shape->count, static_cast<int>(call.shares), call.shape->element_bytes);
  while (true) {
    call.set_at_work(true);
    const std::optional<std::uint64_t> share = call.take_share(*call.counters, call.place, call.shares);
    if (!share) break;
    if (!call.begin_writing()) co_await kNever;
    reduce_range(call, slices.begin(static_cast<int>(*share)), slices.size(static_cast<int>(*share)));
    if (call.is_given_up()) co_await kNever;  // what was read may not be the inputs any more
    call.finish_share(*call.counters, call.place, call.shares);
  }
  call.set_at_work(false);
  call.publish(call.slot->done, call.number);  // now, because the next calls run while this one waits
  co_await Wait{.common = call.counters,
                .common_target = SliceCounters::none_of(call.place) + call.shares,
                .is_last = true};
}

/// Reduces this rank's slice of the piece that begins with element `begin`. The result goes to this rank's
/// output and, on each other rank's segment, into the place of the data that was read.
void reduce_slice(Call& call, std::uint64_t begin, const Slices& slices, std::size_t half) {
  const std::size_t element = call.shape->element_bytes;
  const std::uint64_t at = slices.begin(call.rank);
  const auto own = static_cast<std::size_t>(call.rank);
  std::vector<const void*>& from = call.from;
  std::vector<void*>& to = call.to;
  from.resize(static_cast<std::size_t>(call.size));
  to.resize(from.size());
  for (std::size_t r = 0; r < from.size(); ++r) from[r] = to[r] = call.slots[r]->pieces[half] + at * element;
  from[own] = call.input + (begin + at) * element;
  to[own] = call.output + (begin + at) * element;
  call.fold(to.data(), to.size(), from.data(), from.size(), slices.size(call.rank), from.size());
}

/// Some memory is private. For each piece, a rank copies what the other ranks need to its segment, reduces
/// its slice of all segments in place, and copies the other slices from its own segment. While a piece is
/// reduced, the next one is put on the segment. Its owner and one other rank write a cache line in turn, and
/// each writes what it has just read (see kernels::own_lines()). Ranks that share cores count themselves, so
/// that a waiting rank watches one number.
Task reduce_staged(Call& call) {
  const std::size_t element = call.shape->element_bytes;
  const std::uint64_t count = call.shape->count;
  const std::uint64_t piece = call.piece_bytes() / element;
  const std::uint64_t pieces = (count + piece - 1) / piece;
  const std::uint64_t before = call.number_pieces(pieces);
  const auto slices_of = [&](std::uint64_t t) {
    return Slices(std::min(piece, count - t * piece), call.size, element);
  };
  const auto put_down = [&](std::uint64_t t) {
    const Slices slices = slices_of(t);
    const std::byte* data = call.input + t * piece * element;
    std::byte* stage = call.slot->pieces[(before + t) % 2];
    const std::uint64_t own = slices.begin(call.rank);
    const std::uint64_t behind = own + slices.size(call.rank);
    call.show(stage, data, own * element, false);
    call.show(stage + behind * element, data + behind * element, (slices.count - behind) * element, false);
    if (call.counters != nullptr) return call.arrive(before + t, 0);
    call.publish(call.slot->staged, before + t + 1);
    return Wait{&CommSlot::staged, before + t + 1};
  };
  Wait next;
  if (pieces > 0) next = put_down(0);
  for (std::uint64_t t = 0; t < pieces; ++t) {
    const std::size_t half = (before + t) % 2;
    const Slices slices = slices_of(t);
    const Wait staged = next;
    if (t + 1 < pieces) {
      // The other half is free once all ranks have ended the call before.
      if (t == 0) co_await (call.counters != nullptr ? staged : Wait{&CommSlot::done, call.number - 1});
      next = put_down(t + 1);
    }
    co_await staged;
    reduce_slice(call, t * piece, slices, half);
    co_await call.finish_piece(before + t);
    const std::uint64_t own = slices.begin(call.rank);
    const std::uint64_t behind = own + slices.size(call.rank);
    std::byte* const stage = call.slot->pieces[half];
    std::byte* const to = call.output + t * piece * element;
    call.take(to, stage, own * element, true);
    call.take(to + behind * element, stage + behind * element, (slices.count - behind) * element, true);
  }
  call.publish(call.slot->done, call.number);
}

/// As reduce_staged(), for many ranks on a core, and for little data of two. Each piece takes one turn of
/// each rank: a rank takes the sums of a piece, puts its next piece down and waits. Once all ranks have done
/// so, the running ranks sum the piece by shares. The sums take the place of the first rank's contribution,
/// so that all ranks read the same memory.
Task reduce_staged_by_shares(Call& call) {
  const std::size_t element = call.shape->element_bytes;
  const std::uint64_t count = call.shape->count;
  const std::uint64_t piece = call.piece_bytes() / element;
  const std::uint64_t pieces = (count + piece - 1) / piece;
  const std::uint64_t before = call.number_pieces(pieces);
  for (std::uint64_t t = 0; t < pieces; ++t) {
    const std::uint64_t number = before + t;
    const std::uint64_t elements = std::min(piece, count - t * piece);
    const std::size_t half = number % 2;  // free, as in in_pieces()
    SliceCounters& counters = call.counters_of_piece(number);
    const std::uint64_t shares = share_count(elements * element);
    kernels::copy(call.slot->pieces[half], call.input + t * piece * element, elements * element);
    co_await call.arrive(number, shares);
    const Slices slices(elements, static_cast<int>(shares), element);
    call.set_at_work(true);
    while (const std::optional<std::uint64_t> share = call.take_share(counters, number, shares)) {
      const std::uint64_t at = slices.begin(static_cast<int>(*share)) * element;
      call.from.resize(call.slots.size());
      for (std::size_t r = 0; r < call.from.size(); ++r) call.from[r] = call.slots[r]->pieces[half] + at;
      void* const sums = call.slots.front()->pieces[half] + at;
      call.fold(&sums, 1, call.from.data(), call.from.size(), slices.size(static_cast<int>(*share)),
                call.from.size());
      call.finish_share(counters, number, shares);
    }
    call.set_at_work(false);
    co_await Wait{.common = &counters, .common_target = SliceCounters::none_of(number) + shares};
    kernels::copy(call.output + t * piece * element, call.slots.front()->pieces[half], elements * element);
  }
  call.publish(call.slot->done, call.number);
}

}  // namespace

Task reduce_for_all(Call& call) {
  if (call.shares > 0) return reduce_by_shares(call);
  if (!call.inputs.empty() && !call.outputs.empty()) return reduce_in_place(call);
  // Of two ranks a core, both run once a piece in any case, and slices copy a quarter less.
  constexpr std::uint64_t kSharesBytes = 64 << 10;
  const bool by_shares = call.size > 2 * call.cores || call.shape->bytes() <= kSharesBytes;
  return call.counters != nullptr && by_shares ? reduce_staged_by_shares(call) : reduce_staged(call);
}

}  // namespace kolo::engine::shared_memory

// all_gather / direct and broadcast / direct in shared memory. Each rank copies the other ranks'
// contributions.
#include <algorithm>

#include "engine/native/pieces.hpp"

namespace kolo::native {
namespace {

/// Long enough for kernels::copy() to know that caches do not help.
constexpr std::uint64_t kCopyBytes = 32 << 20;

/// What `call.rank` needs of rank r, and where it goes; null where it needs nothing.
struct Wanted {
  std::byte* to = nullptr;
  std::uint64_t bytes = 0;
};

Wanted wanted_of(const Call& call, int r) {
  const Shape& shape = *call.shape;
  if (r == call.rank || shape.shown_bytes(r) == 0) return {};
  if (shape.collective == Collective::broadcast) return {call.output, shape.bytes()};
  return {call.output + shape.part_begin(r) * shape.element_bytes, shape.shown_bytes(r)};
}

Task gather_shared(Call& call) {
  for (int r = 0; r < call.size; ++r) {
    const Wanted wanted = wanted_of(call, r);
    for (std::uint64_t at = 0; at < wanted.bytes; at += kCopyBytes) {
      kernels::copy(wanted.to + at, call.inputs[static_cast<std::size_t>(r)] + at,
                    std::min(kCopyBytes, wanted.bytes - at));
      co_await Wait{};
    }
  }
  call.publish(call.slot->done, call.number);
  co_await Wait{&CommSlot::done, call.number};  // all ranks have read this rank's input
}

Task gather_staged(Call& call) {
  const std::uint64_t longest = call.shape->most_shown_bytes(call.size);
  const std::uint64_t own = call.shape->shown_bytes(call.rank);
  const std::uint64_t piece = call.piece_bytes();
  const auto length = [piece](std::uint64_t bytes, std::uint64_t t) {
    return std::min(piece, bytes - std::min(bytes, t * piece));
  };
  const auto put_down = [=, &call](std::uint64_t t, std::size_t half) {
    if (length(own, t) > 0) call.show(call.slot->pieces[half], call.input + t * piece, length(own, t), true);
  };
  const auto read = [=, &call](std::uint64_t t, std::size_t half) {
    for (int r = 0; r < call.size; ++r) {
      const Wanted wanted = wanted_of(call, r);
      if (length(wanted.bytes, t) == 0) continue;
      call.take(wanted.to + t * piece, call.slots[static_cast<std::size_t>(r)]->pieces[half],
                length(wanted.bytes, t), call.size == 2);
    }
  };
  return in_pieces(call, (longest + piece - 1) / piece, put_down, read);
}

/// Copies this rank's own part to the output, unless it is there already.
void keep_own_part(const Call& call) {
  std::byte* to = call.output + call.shape->part_begin(call.rank) * call.shape->element_bytes;
  if (to != call.input && call.shape->shown_bytes(call.rank) > 0)
    kernels::copy(to, call.input, call.shape->shown_bytes(call.rank));
}

}  // namespace

Task all_gather(Call& call) {
  keep_own_part(call);
  return call.inputs.empty() ? gather_staged(call) : gather_shared(call);
}

Task broadcast(Call& call) {
  return call.inputs.empty() ? gather_staged(call) : gather_shared(call);
}

}  // namespace kolo::native

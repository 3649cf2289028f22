#include "engine/shared_memory/call.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "engine/shared_memory/nap.hpp"

namespace kolo::engine::shared_memory {

Shape make_shape(const schedule::SharedMemoryForm& form, std::span<const std::uint64_t> parts, int size,
                 int root, std::size_t element_bytes) {
  Shape shape{.form = form,
              .element_bytes = element_bytes,
              .count = std::accumulate(parts.begin(), parts.end(), std::uint64_t{0}),
              .shown = schedule::ranges_of(form.input, parts, size, root)};
  if (form.kind == schedule::SharedMemoryForm::Kind::reduce_own)
    shape.parts = schedule::ranges_of(schedule::Held::own_part, parts, size, root);
  for (int rank = 0; rank < size; ++rank)
    shape.most_shown = std::max(shape.most_shown, shape.shown_bytes(rank));
  return shape;
}

bool Call::is_given_up() const {
  std::atomic_thread_fence(std::memory_order_acquire);  // what was read before stays before it
  return std::any_of(segments.begin(), segments.end(), [](const Segment* segment) {
    return segment->closed.load(std::memory_order_seq_cst) != 0;
  });
}

bool Call::begin_writing() {
  if (segment->writing.load(std::memory_order_relaxed) == 0)
    segment->writing.store(1, std::memory_order_seq_cst);
  return !is_given_up();
}

void Call::show(std::byte* stage, const std::byte* data, std::size_t bytes, bool to_all) const {
  if (to_all && size > 2) {
    kernels::copy_for_others(stage, data, bytes);
  } else {
    kernels::copy(stage, data, bytes);  // the one reader has given the lines back, see take()
  }
}

void Call::take(std::byte* to, std::byte* stage, std::size_t bytes, bool alone) const {
  for (std::size_t at = 0; at < bytes; at += kBlockBytes) {
    const std::size_t block = std::min(kBlockBytes, bytes - at);
    kernels::copy(to + at, stage + at, block);
    if (alone) kernels::own_lines(stage + at, block);
  }
}

Wait Call::finish(CommSlot::Counter CommSlot::*counter, std::uint64_t value, SliceCounters& of,
                  std::uint64_t place_or_piece) {
  publish(slot->*counter, value);
  Wait wait{.counter = counter, .target = value, .is_last = counter == &CommSlot::done};
  if (counters == nullptr) return wait;
  const auto ranks = static_cast<std::uint64_t>(size);
  wait.common = &of;
  wait.common_target = SliceCounters::none_of(place_or_piece) + ranks;
  finish_share(of, place_or_piece, ranks);
  return wait;
}

void Call::wake(SliceCounters& of, bool to_sum) {
  to_sum ? wake_to_sum(of) : wake_nappers(of);
  if (of.sleeping.load(std::memory_order_relaxed) > 0)
    (to_sum ? published->has_opened : published->changed) = true;
}

Wait Call::arrive(std::uint64_t piece, std::uint64_t cut_into) {
  SliceCounters& of = counters_of_piece(piece);
  publish(slot->staged, piece + 1);
  if (of.arrive(piece, static_cast<std::uint64_t>(size))) {
    of.open(piece);
    if (cut_into == 0 || !sums) wake(of, cut_into > 0);
  }
  return {.counter = &CommSlot::staged,
          .target = piece + 1,
          .common = &of,
          .common_target = SliceCounters::none_of(piece) + (sums ? 0 : cut_into)};
}

std::optional<std::uint64_t> Call::take_share(SliceCounters& of, std::uint64_t place_or_piece,
                                              std::uint64_t count) const {
  const auto share = of.take(place_or_piece, count);
  if (share && *share + 1 < std::min(count, static_cast<std::uint64_t>(cores))) wake_to_sum(of);
  return share;
}

Task run(Call& call) {
  switch (call.shape->form.kind) {
    case schedule::SharedMemoryForm::Kind::copy:
      return copy(call);
    case schedule::SharedMemoryForm::Kind::reduce_own:
      return reduce_own(call);
    default:
      return reduce_for_all(call);
  }
}

void finish_short(Call& call) {
  const Shape& shape = *call.shape;
  void* const out = call.output;
  switch (shape.form.kind) {
    case schedule::SharedMemoryForm::Kind::copy:
      for (int r = 0; r < call.size; ++r) {
        const std::uint64_t bytes = shape.shown_bytes(r);
        std::byte* const to = call.place_of(r);
        if (bytes > 0 && (r != call.rank || to != call.input))
          std::memcpy(to, call.from[static_cast<std::size_t>(r)], bytes);
      }
      return;
    case schedule::SharedMemoryForm::Kind::reduce_own: {
      const schedule::DataRange& part = call.own_part();
      for (const void*& data : call.from)
        data = static_cast<const std::byte*>(data) + part.begin * shape.element_bytes;
      call.fold(&out, 1, call.from.data(), call.from.size(), part.count, call.from.size());
      return;
    }
    case schedule::SharedMemoryForm::Kind::reduce_for_all:
      call.fold(&out, 1, call.from.data(), call.from.size(), shape.count, call.from.size());
      return;
  }
}

}  // namespace kolo::engine::shared_memory

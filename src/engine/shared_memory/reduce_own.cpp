// SharedMemoryForm::Kind::reduce_own: each rank reduces its part of all inputs.
#include <algorithm>

#include "engine/shared_memory/pieces.hpp"

namespace kolo::engine::shared_memory {
namespace {

Task reduce_own_shared(Call& call) {
  const std::size_t element = call.shape->element_bytes;
  const auto [begin, count] = call.own_part();
  const std::uint64_t step = std::max<std::uint64_t>(kPieceBytes / element, 1);
  std::vector<const void*>& from = call.from;
  from.resize(call.inputs.size());
  for (std::uint64_t at = 0; at < count; at += step) {
    for (std::size_t r = 0; r < from.size(); ++r) {
      from[r] = call.inputs[r] + (begin + at) * element;
    }
    void* const to = call.output + at * element;
    call.fold(&to, 1, from.data(), from.size(), std::min(step, count - at), from.size());
    if (at + step < count) co_await Wait{};
  }
  co_await call.finish();  // all ranks have read this rank's input
}

/// Reduces `count` elements of this rank's part, from its element `begin` on. They begin `stage` bytes into
/// each segment's piece. Goes block by block: the segments' lines are still in the nearest cache when it
/// gives them back.
void reduce_stretch(Call& call, std::uint64_t begin, std::uint64_t count, std::size_t half,
                    std::uint64_t stage) {
  const std::size_t element = call.shape->element_bytes;
  const std::uint64_t block = kBlockBytes / element;
  std::vector<const void*>& from = call.from;
  from.resize(static_cast<std::size_t>(call.size));
  for (std::uint64_t at = 0; at < count; at += block) {
    const std::uint64_t n = std::min(block, count - at);
    const std::uint64_t place = stage + at * element;
    for (std::size_t r = 0; r < from.size(); ++r) from[r] = call.slots[r]->pieces[half] + place;
    from[static_cast<std::size_t>(call.rank)] = call.input_of(call.rank) + (begin + at) * element;
    void* const to = call.output + (begin + at) * element;
    call.fold(&to, 1, from.data(), from.size(), n, from.size());
    for (int r = 0; r < call.size; ++r) {
      if (r != call.rank)
        kernels::own_lines(call.slots[static_cast<std::size_t>(r)]->pieces[half] + place, n * element);
    }
  }
}

/// Piece by piece, each with a stretch of every rank's part.
Task reduce_own_staged(Call& call) {
  const Shape* const shape = call.shape;
  const std::size_t element = shape->element_bytes;
  // A rank touches only a part of each other rank's piece.
  const std::uint64_t stretch =
      std::max<std::uint64_t>(1, 2 * call.piece_bytes() / element / static_cast<std::uint64_t>(call.size));
  std::uint64_t longest = 0;
  for (const schedule::DataRange& part : shape->parts) longest = std::max(longest, part.count);
  const auto part_of = [=](int r) { return shape->parts[static_cast<std::size_t>(r)]; };
  const auto length = [=](int r, std::uint64_t t) {
    const std::uint64_t count = part_of(r).count;
    return std::min(stretch, count - std::min(count, t * stretch));
  };
  const auto stage_of = [=](int r) { return static_cast<std::uint64_t>(r) * stretch * element; };
  const auto put_down = [=, &call](std::uint64_t t, std::size_t half) {
    for (int r = 0; r < call.size; ++r) {
      if (r == call.rank || length(r, t) == 0) continue;
      call.show(call.slot->pieces[half] + stage_of(r), call.input_of(r) + t * stretch * element,
                length(r, t) * element, false);
    }
  };
  const auto read = [=, &call](std::uint64_t t, std::size_t half) {
    reduce_stretch(call, t * stretch, length(call.rank, t), half, stage_of(call.rank));
  };
  return in_pieces(call, (longest + stretch - 1) / stretch, put_down, read);
}

}  // namespace

Task reduce_own(Call& call) {
  return call.inputs.empty() ? reduce_own_staged(call) : reduce_own_shared(call);
}

}  // namespace kolo::engine::shared_memory

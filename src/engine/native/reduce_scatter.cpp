// reduce_scatter / direct in shared memory. Each rank reduces its part out of everybody's input.
#include <algorithm>

#include "engine/native/call.hpp"

namespace kolo::native {
namespace {

Task from_shared(Call& call) {
  const std::size_t element = call.shape->element_bytes;
  const std::uint64_t count = call.shape->part_count(call.rank);
  const std::uint64_t step = std::max<std::uint64_t>(kPieceBytes / element, 1);
  std::vector<const void*>& from = call.from;
  from.resize(call.inputs.size());
  for (std::uint64_t at = 0; at < count; at += step) {
    for (std::size_t r = 0; r < from.size(); ++r) {
      from[r] = call.inputs[r] + (call.shape->part_begin(call.rank) + at) * element;
    }
    void* const to = call.output + at * element;
    call.fold(&to, 1, from.data(), from.size(), std::min(step, count - at), from.size());
    if (at + step < count) co_await Wait{};
  }
  call.publish(call.lane->done, call.number);
  co_await Wait{&Lane::done, call.number};  // the others have read this rank's input
}

/// Reduces `count` elements of this rank's part, from its element `begin` on, block by block so that the
/// boards' lines are given back out of the nearest cache. They begin `stage` bytes into each board's piece.
void reduce_stretch(Call& call, std::uint64_t begin, std::uint64_t count, std::size_t half,
                    std::uint64_t stage) {
  const std::size_t element = call.shape->element_bytes;
  const std::uint64_t block = kBlockBytes / element;
  std::vector<const void*>& from = call.from;
  from.resize(static_cast<std::size_t>(call.size));
  for (std::uint64_t at = 0; at < count; at += block) {
    const std::uint64_t n = std::min(block, count - at);
    const std::uint64_t place = stage + at * element;
    for (std::size_t r = 0; r < from.size(); ++r) from[r] = call.lanes[r]->in[half] + place;
    from[static_cast<std::size_t>(call.rank)] =
        call.input + (call.shape->part_begin(call.rank) + begin + at) * element;
    void* const to = call.output + (begin + at) * element;
    call.fold(&to, 1, from.data(), from.size(), n, from.size());
    for (int r = 0; r < call.size; ++r) {
      if (r != call.rank)
        kernels::own_lines(call.lanes[static_cast<std::size_t>(r)]->in[half] + place, n * element);
    }
  }
}

/// Piece by piece, each with a stretch of every rank's part.
Task staged(Call& call) {
  const Shape& shape = *call.shape;
  const std::size_t element = shape.element_bytes;
  const std::uint64_t stretch = call.piece_bytes() / element / static_cast<std::uint64_t>(call.size);
  std::uint64_t longest = 0;
  for (int r = 0; r < call.size; ++r) longest = std::max(longest, shape.part_count(r));
  const std::uint64_t pieces = (longest + stretch - 1) / stretch;
  const std::uint64_t before = *call.pieces;
  *call.pieces += pieces;
  const auto length = [&](int r, std::uint64_t t) {
    return std::min(stretch, shape.part_count(r) - std::min(shape.part_count(r), t * stretch));
  };
  const auto stage_of = [&](int r) { return static_cast<std::uint64_t>(r) * stretch * element; };
  const auto put_down = [&](std::uint64_t t) {
    for (int r = 0; r < call.size; ++r) {
      if (r == call.rank || length(r, t) == 0) continue;
      call.show(call.lane->in[(before + t) % 2] + stage_of(r),
                call.input + (shape.part_begin(r) + t * stretch) * element, length(r, t) * element, false);
    }
    call.publish(call.lane->staged, before + t + 1);
  };
  co_await Wait{&Lane::done, call.number - 1};  // the boards are free
  if (pieces > 0) put_down(0);
  for (std::uint64_t t = 0; t < pieces; ++t) {
    if (t + 1 < pieces) {
      if (t > 0) co_await Wait{&Lane::reduced, before + t};  // piece t - 1 has been read
      put_down(t + 1);
    }
    co_await Wait{&Lane::staged, before + t + 1};
    reduce_stretch(call, t * stretch, length(call.rank, t), (before + t) % 2, stage_of(call.rank));
    call.publish(call.lane->reduced, before + t + 1);
  }
  call.publish(call.lane->done, call.number);
}

}  // namespace

Task reduce_scatter(Call& call) {
  return call.inputs.empty() ? staged(call) : from_shared(call);
}

}  // namespace kolo::native

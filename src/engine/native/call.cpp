#include "engine/native/call.hpp"

#include <algorithm>
#include <cstring>

namespace kolo::native {

std::uint64_t Shape::shown_bytes(int rank) const {
  switch (collective) {
    case Collective::barrier:
      return 0;
    case Collective::broadcast:
      return rank == root ? bytes() : 0;
    case Collective::all_gather:
      return part_count(rank) * element_bytes;
    default:
      return bytes();
  }
}

std::uint64_t Shape::most_shown_bytes(int size) const {
  std::uint64_t most = 0;
  for (int rank = 0; rank < size; ++rank) most = std::max(most, shown_bytes(rank));
  return most;
}

bool Call::is_given_up() const {
  std::atomic_thread_fence(std::memory_order_acquire);  // what was read before stays before it
  return std::any_of(segments.begin(), segments.end(), [](const SharedSegment* segment) {
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

Task run(Call& call) {
  switch (call.shape->collective) {
    case Collective::all_reduce:
      return all_reduce(call);
    case Collective::reduce_scatter:
      return reduce_scatter(call);
    case Collective::all_gather:
      return all_gather(call);
    default:
      return broadcast(call);
  }
}

void finish_short(const Call& call, std::span<const void* const> shown) {
  const Shape& shape = *call.shape;
  const std::size_t element = shape.element_bytes;
  switch (shape.collective) {
    case Collective::all_reduce: {
      void* const out = call.output;
      call.fold(&out, 1, shown.data(), shown.size(), shape.count(), shown.size());
      return;
    }
    case Collective::reduce_scatter: {
      std::vector<const void*> parts(shown.begin(), shown.end());
      for (const void*& part : parts)
        part = static_cast<const std::byte*>(part) + shape.part_begin(call.rank) * element;
      void* const out = call.output;
      call.fold(&out, 1, parts.data(), parts.size(), shape.part_count(call.rank), parts.size());
      return;
    }
    case Collective::all_gather:
      for (int rank = 0; rank < call.size; ++rank) {
        const std::size_t bytes = shape.part_count(rank) * element;
        if (bytes > 0) {
          std::memcpy(call.output + shape.part_begin(rank) * element, shown[static_cast<std::size_t>(rank)],
                      bytes);
        }
      }
      return;
    case Collective::broadcast:
      if (call.rank != shape.root && shape.bytes() > 0) {
        std::memcpy(call.output, shown[static_cast<std::size_t>(shape.root)], shape.bytes());
      }
      return;
    default:
      return;
  }
}

}  // namespace kolo::native

// GpuMemory: memory of a GPU for the data of a benchmark.
#pragma once

#include <cstddef>
#include <memory>

#include "bench/memory.hpp"
#include "device/stream.hpp"
#include "kolo/buffer.hpp"

namespace kolo::bench {

/// Memory of a GPU, and as much of the host's, where inputs are written and results verified. Errors are
/// exceptions. One thread.
class GpuMemory {
 public:
  explicit GpuMemory(int index);
  ~GpuMemory();
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  Device device() const { return {DeviceKind::cuda, static_cast<std::int16_t>(gpu_->index())}; }
  /// The host's part, page-aligned; another length loses the contents.
  std::byte* of_bytes(std::size_t bytes);
  /// What the GPU has for this memory of the host.
  void* on_gpu(void* host) const;
  /// Copies all of it down from the GPU, or up, or both in this order.
  void copy(bool down, bool up);

 private:
  void release() noexcept;

  const std::shared_ptr<const device::Gpu> gpu_;
  device::Stream stream_;
  PlainMemory plain_;
  std::byte* host_ = nullptr;  ///< plain_'s, registered
  device::cuda::Address memory_ = 0;
  std::size_t bytes_ = 0;
};

/// The GPU that a rank takes if none is named: the ranks of a host take them in turns.
int gpu_of(int local_rank);

}  // namespace kolo::bench

// GpuMemory: memory of a GPU for the data of a benchmark.
#pragma once

#include <cstddef>
#include <memory>

#include "bench/memory.hpp"
#include "device/gpu.hpp"
#include "device/stream.hpp"
#include "kolo/buffer.hpp"

namespace kolo::bench {

/// Memory of a GPU, and as much of the host's, where inputs are written and results verified. Functions
/// return when the copies are over; errors are exceptions. One thread.
class GpuMemory {
 public:
  explicit GpuMemory(int index);
  ~GpuMemory();
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  Device device() const;
  /// The host's part, page-aligned; growing loses the contents.
  std::byte* at_least(std::size_t bytes);
  /// What the GPU has for this memory of the host.
  void* on_gpu(void* host) const;

  // Copies of as many bytes as at_least() has been asked for last.
  void up();
  void down();
  void down_and_up();

 private:
  void begin_up();
  void begin_down();
  void release() noexcept;

  const std::shared_ptr<const device::Gpu> gpu_;
  device::Stream stream_;
  PlainMemory plain_;
  std::byte* host_ = nullptr;  ///< plain_'s, registered
  device::cuda::Address memory_ = 0;
  std::size_t capacity_ = 0, bytes_ = 0;
};

/// The number of the GPU that a rank takes if none is named: the ranks of a host take them in turns.
int gpu_of(int local_rank);

}  // namespace kolo::bench

#include "bench/gpu_memory.hpp"

#include <utility>

#include "kolo/error.hpp"

namespace kolo::bench {

GpuMemory::GpuMemory(int index) : gpu_(device::Gpu::of(index).value_or_throw()) {
  const device::Gpu::Current current(*gpu_);
  stream_ = device::Stream::make(gpu_).value_or_throw();
}

GpuMemory::~GpuMemory() {
  const device::Gpu::Current current(*gpu_);
  release();
  stream_ = {};
}

void GpuMemory::release() noexcept {
  if (host_ != nullptr) static_cast<void>(gpu_->driver().mem_host_unregister(std::exchange(host_, nullptr)));
  if (memory_ != 0) static_cast<void>(gpu_->driver().mem_free(std::exchange(memory_, 0)));
  bytes_ = 0;
}

std::byte* GpuMemory::of_bytes(std::size_t bytes) {
  if (bytes == bytes_) return host_;
  const device::Gpu::Current current(*gpu_);
  release();
  std::byte* const host = plain_.at_least(bytes);
  gpu_->driver().mem_host_register(host, bytes, device::cuda::kRegisterForAllDevices).throw_if_error();
  host_ = host;
  gpu_->driver().mem_alloc(&memory_, bytes).throw_if_error();
  bytes_ = bytes;
  return host_;
}

void* GpuMemory::on_gpu(void* host) const {
  return reinterpret_cast<std::byte*>(memory_) + (static_cast<std::byte*>(host) - host_);
}

void GpuMemory::copy(bool down, bool up) {
  const device::Gpu::Current current(*gpu_);
  if (down) stream_.copy_down(host_, on_gpu(host_), bytes_).throw_if_error();
  if (up) stream_.copy_up(on_gpu(host_), host_, bytes_).throw_if_error();
  stream_.synchronize().throw_if_error();
}

int gpu_of(int local_rank) {
  const std::size_t count = device::names_of_gpus().value_or_throw().size();
  if (count == 0) throw SystemError("there is no GPU", {});
  return local_rank % static_cast<int>(count);
}

}  // namespace kolo::bench

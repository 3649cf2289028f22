// Memory and streams of the fake driver's devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/fake_cuda.hpp"
#include "device/gpu.hpp"
#include "device/stream.hpp"
#include "kolo/buffer.hpp"

namespace kolo::test {

inline constexpr Device kFirstDevice{DeviceKind::cuda, 0};

/// Floats on a device, by default the first one, which the test may touch as `values`.
class DeviceFloats {
 public:
  explicit DeviceFloats(std::size_t count_, int device_ = 0)
      : count(count_),
        device{DeviceKind::cuda, static_cast<std::int16_t>(device_)},
        address(fake_cuda_allocate(device_, count * sizeof(float))),
        values(static_cast<float*>(fake_cuda_inside(address))) {}
  ~DeviceFloats() { fake_cuda_free(address); }
  DeviceFloats(const DeviceFloats&) = delete;
  DeviceFloats& operator=(const DeviceFloats&) = delete;
  Buffer buffer() const { return {address, count, DType::float32, device}; }

  const std::size_t count;
  const Device device;
  void* const address;
  float* const values;
};

/// A stream of the caller's.
class OwnStream {
 public:
  explicit OwnStream(int device = 0)
      : gpu_(device::Gpu::of(device).value_or_throw()),
        current_(*gpu_),
        stream_(device::Stream::make(gpu_).value_or_throw()) {}
  void* handle() const { return stream_.handle(); }
  void synchronize() const { gpu_->driver().stream_synchronize(stream_.handle()).throw_if_error(); }

 private:
  std::shared_ptr<const device::Gpu> gpu_;
  device::Gpu::Current current_;
  device::Stream stream_;
};

}  // namespace kolo::test

// Memory of the fake driver's devices.
#pragma once

#include <cstddef>

#include "device/fake_cuda.hpp"
#include "kolo/buffer.hpp"

namespace kolo::test {

inline constexpr Device kFirstDevice{DeviceKind::cuda, 0};

/// Floats on the first device, which the test may touch as `values`.
class DeviceFloats {
 public:
  explicit DeviceFloats(std::size_t count_)
      : count(count_),
        address(fake_cuda_allocate(0, count * sizeof(float))),
        values(static_cast<float*>(fake_cuda_inside(address))) {}
  ~DeviceFloats() { fake_cuda_free(address); }
  DeviceFloats(const DeviceFloats&) = delete;
  DeviceFloats& operator=(const DeviceFloats&) = delete;
  Buffer buffer() const { return {address, count, DType::float32, kFirstDevice}; }

  const std::size_t count;
  void* const address;
  float* const values;
};

}  // namespace kolo::test

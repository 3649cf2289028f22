#include "libtorch/device.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace kolo::train {
namespace {

c10::Stream current_stream(at::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

/// cudaStream_t, which libtorch tells without CUDA's headers from 2.11 on.
template <typename Stream>
std::optional<void*> handle_of(const Stream& stream) {
  if constexpr (requires { stream.native_handle(); }) {
    return stream.native_handle();
  } else {
    return std::nullopt;
  }
}

}  // namespace

CallOptions on_current_stream(at::Device device, CallOptions options) {
  if (!device.is_cuda()) return options;
  const c10::Stream stream = current_stream(device);
  const std::optional<void*> handle = handle_of(stream);
  if (!handle) stream.synchronize();
  options.stream = handle.value_or(nullptr);
  return options;
}

void order_current_stream(const Work& work, at::Device device) {
  const std::optional<void*> handle = device.is_cuda() ? handle_of(current_stream(device)) : std::nullopt;
  handle ? work.order(*handle) : work.wait();
}

StreamPoint::StreamPoint(at::Device device) : device_(device) {
  if (!device.is_cuda()) return;
  event_.emplace(device.type());
  event_->record(current_stream(device));
}

}  // namespace kolo::train

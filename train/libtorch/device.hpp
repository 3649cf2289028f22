// What calls on a device's memory need to know of libtorch, without CUDA's headers: devices, and the streams
// that are current on them.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <optional>

#include "kolo/buffer.hpp"
#include "kolo/communicator.hpp"
#include "kolo/work.hpp"

namespace kolo::train {

/// Whether collectives take memory of the device.
inline bool is_served(at::Device device) {
  return device.is_cpu() || device.is_cuda();
}
/// Of one that is served.
inline Device device_of(at::Device device) {
  return device.is_cuda() ? Device{DeviceKind::cuda, device.index()} : Device{};
}

/// The same options, for a call that begins after what this thread's current stream of the device holds. No
/// stream on the CPU.
CallOptions on_current_stream(at::Device device, CallOptions options);
/// This thread's current stream of the device goes on after the call: see Work::order(). On the CPU, this
/// thread does. Throws the operation's error.
void order_current_stream(const Work& work, at::Device device);

/// What this thread's current stream of a device holds, for another thread that goes on with it. Nothing on
/// the CPU.
class StreamPoint {
 public:
  explicit StreamPoint(at::Device device);

  /// Runs `action` with a current stream of its own that begins at this point, and waits for that stream.
  template <typename Action>
  auto go_on(const Action& action) const {
    if (!event_) return action();
    const c10::Stream stream = c10::impl::VirtualGuardImpl(device_.type()).getStreamFromGlobalPool(device_);
    event_->block(stream);
    const c10::StreamGuard current(stream);
    auto result = action();
    stream.synchronize();
    return result;
  }

 private:
  at::Device device_;
  std::optional<c10::Event> event_;
};

}  // namespace kolo::train

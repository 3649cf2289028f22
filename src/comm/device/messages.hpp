// DeviceMessages: sends and receives on the memory of devices, by way of the host's.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/device/staging.hpp"
#include "kolo/buffer.hpp"

namespace kolo::comm {

/// Memory of the host for a communicator's messages. Each has its own while it is in flight, so that messages
/// wait for each other only as those in the host's memory do. Thread-safe.
class DeviceMessages : public std::enable_shared_from_this<DeviceMessages> {
 public:
  ~DeviceMessages();

  /// Memory for the message, which comes back here with the last pointer to it; that of a send has the data.
  /// Returns when the device has done what `stream` holds, with Code::timeout after `timeout`.
  Result<std::shared_ptr<Staging>> stage(const ConstBuffer& data, bool sends, device::cuda::Stream stream,
                                         std::chrono::nanoseconds timeout);
  static std::byte* memory_of(Staging& staging) { return staging.slots()[0].memory; }
  /// Copies a message from the device to its memory in the host, or back, and returns when that is over.
  static Status copy(Staging& staging, const ConstBuffer& data, bool down);

 private:
  Result<std::unique_ptr<Staging>> take(int gpu);

  std::mutex mutex_;
  std::vector<std::unique_ptr<Staging>> idle_;
};

}  // namespace kolo::comm

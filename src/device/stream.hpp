// Stream, Event: what a device does in order, and the points that other streams and the host wait for.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "device/gpu.hpp"

namespace kolo::device {

/// A point in a stream's work. Movable.
class Event {
 public:
  Event() = default;
  /// The gpu is current.
  static Result<Event> make(std::shared_ptr<const Gpu> gpu);
  Event(Event&& other) noexcept
      : gpu_(std::move(other.gpu_)), handle_(std::exchange(other.handle_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(gpu_, other.gpu_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Event();

  /// After all that `stream` has to do now.
  Status record(cuda::Stream stream) { return gpu_->driver().event_record(handle_, stream); }
  /// What `stream` gets to do from now on begins after it.
  Status hold_back(cuda::Stream stream) const { return gpu_->driver().stream_wait_event(stream, handle_, 0); }
  /// Whether what was recorded last is over, or the error that the device has met.
  Result<bool> reached() const;

 private:
  std::shared_ptr<const Gpu> gpu_;
  cuda::Event handle_ = nullptr;
};

/// A stream of kolo's own, which does not wait for the default one. Movable.
class Stream {
 public:
  Stream() = default;
  /// The gpu is current.
  static Result<Stream> make(std::shared_ptr<const Gpu> gpu);
  Stream(Stream&& other) noexcept
      : gpu_(std::move(other.gpu_)), handle_(std::exchange(other.handle_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(gpu_, other.gpu_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Stream();

  /// `host` is registered memory.
  Status copy_down(void* host, const void* device, std::size_t bytes);
  Status copy_up(void* device, const void* host, std::size_t bytes);
  /// Returns when it has nothing to do any more.
  Status synchronize() { return gpu_->driver().stream_synchronize(handle_); }
  cuda::Stream handle() const noexcept { return handle_; }

 private:
  std::shared_ptr<const Gpu> gpu_;
  cuda::Stream handle_ = nullptr;
};

}  // namespace kolo::device

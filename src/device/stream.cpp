#include "device/stream.hpp"

#include <cstdint>

namespace kolo::device {
namespace {

cuda::Address address(const void* data) {
  return static_cast<cuda::Address>(reinterpret_cast<std::uintptr_t>(data));
}

}  // namespace

Result<Event> Event::make(std::shared_ptr<const Gpu> gpu) {
  Event event;
  if (Status s = gpu->driver().event_create(&event.handle_, cuda::kEventWithoutTime); !s.ok()) return s;
  event.gpu_ = std::move(gpu);
  return event;
}

Event::~Event() {
  if (handle_ != nullptr) static_cast<void>(gpu_->driver().event_destroy(handle_));
}

Result<bool> Event::reached() const {
  const int code = gpu_->driver().event_query.code(handle_);
  if (code == 0) return true;
  if (code == cuda::kNotReady) return false;
  return Driver::status_of("cuEventQuery", code);
}

Result<Stream> Stream::make(std::shared_ptr<const Gpu> gpu) {
  Stream stream;
  if (Status s = gpu->driver().stream_create(&stream.handle_, cuda::kStreamNonBlocking); !s.ok()) return s;
  stream.gpu_ = std::move(gpu);
  return stream;
}

Stream::~Stream() {
  if (handle_ != nullptr) static_cast<void>(gpu_->driver().stream_destroy(handle_));
}

Status Stream::copy_down(void* host, const void* device, std::size_t bytes) {
  return gpu_->driver().memcpy_dtoh_async(host, address(device), bytes, handle_);
}

Status Stream::copy_up(void* device, const void* host, std::size_t bytes) {
  return gpu_->driver().memcpy_htod_async(address(device), host, bytes, handle_);
}

}  // namespace kolo::device

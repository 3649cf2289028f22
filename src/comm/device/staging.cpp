#include "comm/device/staging.hpp"

#include <algorithm>

namespace kolo::comm {

Result<std::unique_ptr<Staging>> Staging::make(std::shared_ptr<const device::Gpu> gpu) {
  std::unique_ptr<Staging> made(new Staging(std::move(gpu)));
  for (device::Stream* const stream : {&made->down_, &made->up_}) {
    auto one = device::Stream::make(made->gpu_);
    if (!one.ok()) return one.status();
    *stream = std::move(one).value();
  }
  return made;
}

Staging::~Staging() {
  release();
}

void Staging::release() {
  slots_.clear();
  slot_bytes_ = 0;
  if (std::exchange(is_registered_, false))
    static_cast<void>(gpu_->driver().mem_host_unregister(memory_.data()));
  memory_ = {};
}

Status Staging::reserve(std::size_t count, std::size_t bytes) {
  if (count <= slots_.size() && bytes <= slot_bytes_) return {};
  count = std::max(count, slots_.size());
  bytes = std::max(bytes, slot_bytes_);
  release();
  try {
    memory_ = SharedMemory(count * bytes);
  } catch (const Error& error) {
    return Status(Code::system, error.what());
  }
  if (Status s = gpu_->driver().mem_host_register(memory_.data(), memory_.size(),
                                                  device::cuda::kRegisterForAllDevices);
      !s.ok())
    return s;
  is_registered_ = true;
  for (std::size_t i = 0; i < count; ++i) {
    auto down = device::Event::make(gpu_);
    if (!down.ok()) return down.status();
    auto up = device::Event::make(gpu_);
    if (!up.ok()) return up.status();
    slots_.push_back({memory_.data() + i * bytes, std::move(down).value(), std::move(up).value()});
  }
  slot_bytes_ = bytes;
  return {};
}

}  // namespace kolo::comm

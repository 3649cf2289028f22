#include "comm/device/messages.hpp"

#include <algorithm>
#include <bit>
#include <thread>
#include <utility>

#include "base/deadline.hpp"
#include "comm/device/looks.hpp"

namespace kolo::comm {
namespace {

Status wait_for(device::Event& event, device::cuda::Stream stream, std::chrono::nanoseconds timeout) {
  if (Status s = event.record(stream); !s.ok()) return s;
  const Deadline deadline = Deadline::after(timeout);
  for (int looks = 0; !deadline.passed(); ++looks) {
    const auto reached = event.reached();
    if (!reached.ok() || reached.value()) return reached.status();
    pause(looks);
  }
  return late_stream(timeout);
}

}  // namespace

DeviceMessages::~DeviceMessages() {
  for (auto& staging : idle_) {
    const auto gpu = staging->gpu().shared_from_this();
    const device::Gpu::Current current(*gpu);
    staging.reset();
  }
}

Result<std::unique_ptr<Staging>> DeviceMessages::take(int index) {
  {
    const std::lock_guard lock(mutex_);
    const auto found =
        std::ranges::find_if(idle_, [&](const auto& one) { return one->gpu().index() == index; });
    if (found != idle_.end()) {
      std::swap(*found, idle_.back());
      auto taken = std::move(idle_.back());
      idle_.pop_back();
      return taken;
    }
  }
  auto gpu = device::Gpu::of(index);
  if (!gpu.ok()) return gpu.status();
  const device::Gpu::Current current(*gpu.value());
  if (!current.status().ok()) return current.status();
  return Staging::make(gpu.value());
}

Result<std::shared_ptr<Staging>> DeviceMessages::stage(const ConstBuffer& data, bool sends,
                                                       device::cuda::Stream stream,
                                                       std::chrono::nanoseconds timeout) {
  auto taken = take(data.device.index);
  if (!taken.ok()) return taken.status().prefixed("`data`");
  const auto give_back = [own = shared_from_this()](Staging* used) {
    const std::lock_guard lock(own->mutex_);
    own->idle_.emplace_back(used);
  };
  const std::shared_ptr<Staging> staging(taken.value().release(), give_back);
  const device::Gpu& gpu = staging->gpu();
  const device::Gpu::Current current(gpu);
  Status status = current.status();
  if (status.ok()) status = gpu.require_own(stream);
  if (status.ok()) status = gpu.require_own("data", data.data, data.bytes());
  if (status.ok()) status = staging->reserve(1, std::bit_ceil(data.bytes()));
  if (status.ok()) status = wait_for(staging->slots()[0].down, stream, timeout);
  if (status.ok() && sends) status = copy(*staging, data, true);
  if (!status.ok()) return status;
  return staging;
}

Status DeviceMessages::copy(Staging& staging, const ConstBuffer& data, bool down) {
  const device::Gpu::Current current(staging.gpu());
  device::Stream& stream = down ? staging.down() : staging.up();
  void* const on_device = const_cast<void*>(data.data);
  Status status = current.status();
  if (status.ok()) {
    status = down ? stream.copy_down(memory_of(staging), on_device, data.bytes())
                  : stream.copy_up(on_device, memory_of(staging), data.bytes());
  }
  return status.ok() ? stream.synchronize() : status;
}

}  // namespace kolo::comm

#include "device/gpu.hpp"

#include <array>
#include <cstdint>

#include <fmt/format.h>

namespace kolo::device {

Result<std::shared_ptr<const Gpu>> Gpu::of(int index) {
  const auto found = Driver::instance();
  if (!found.ok()) return found.status();
  const Driver& driver = *found.value();
  int count = 0;
  if (Status s = driver.device_get_count(&count); !s.ok()) return s;
  if (index < 0 || index >= count) {
    return Status(Code::invalid_argument, fmt::format("there is no cuda:{}: this process has {} device{}",
                                                      index, count, count == 1 ? "" : "s"));
  }
  const std::shared_ptr<Gpu> gpu(new Gpu(driver, index));
  if (Status s = gpu->open(); !s.ok()) return s;
  return std::shared_ptr<const Gpu>(gpu);
}

Status Gpu::open() {
  if (Status s = driver_.device_get(&number_, index_); !s.ok()) return s;
  return driver_.device_primary_ctx_retain(&context_, number_);
}

Gpu::~Gpu() {
  if (context_ != nullptr) static_cast<void>(driver_.device_primary_ctx_release(number_));
}

Result<cuda::Uuid> Gpu::uuid() const {
  cuda::Uuid uuid{};
  if (Status s = driver_.device_get_uuid(&uuid, number_); !s.ok()) return s;
  return uuid;
}

Gpu::Current::Current(const Gpu& gpu)
    : driver_(gpu.driver_), status_(driver_.ctx_push_current(gpu.context_)) {}

Gpu::Current::~Current() {
  cuda::Context popped = nullptr;
  if (status_.ok()) static_cast<void>(driver_.ctx_pop_current(&popped));
}

Status Gpu::require_own(std::string_view name, const void* data, std::size_t bytes) const {
  if (bytes == 0) return {};
  const auto wrong = [&](const std::string& what) {
    return Status(Code::invalid_argument, fmt::format("`{}` {}", name, what));
  };
  // What the driver does not know, it leaves as it is.
  int type = 0, ordinal = -1;
  unsigned is_managed = 0;
  cuda::Address start = 0;
  std::size_t size = 0;
  std::array attributes = {cuda::memory_type, cuda::device_ordinal, cuda::is_managed, cuda::range_start,
                           cuda::range_size};
  std::array<void*, 5> values = {&type, &ordinal, &is_managed, &start, &size};
  const auto begin = static_cast<cuda::Address>(reinterpret_cast<std::uintptr_t>(data));
  if (Status s = driver_.pointer_get_attributes(attributes.size(), attributes.data(), values.data(), begin);
      !s.ok())
    return s.prefixed(fmt::format("`{}`", name));
  if (is_managed != 0) return wrong("is managed memory, which moves between host and device");
  if (type != cuda::kDeviceMemory) return wrong(fmt::format("is no memory of cuda:{}", index_));
  if (ordinal != index_)
    return wrong(fmt::format("is in the memory of cuda:{}, not of cuda:{}", ordinal, index_));
  if (begin < start || begin + bytes > start + size) {
    return wrong(fmt::format("has {} bytes, of which {} are in its allocation", bytes,
                             begin < start ? 0 : start + size - begin));
  }
  return {};
}

Status Gpu::require_own(cuda::Stream stream) const {
  if (stream == nullptr) return {};
  cuda::Context context = nullptr;
  if (Status s = driver_.stream_get_ctx(stream, &context); !s.ok()) return s.prefixed("`stream`");
  if (context == context_) return {};
  return Status(Code::invalid_argument, fmt::format("`stream` is no stream of cuda:{}", index_));
}

Result<std::vector<std::string>> names_of_gpus() {
  const auto found = Driver::instance();
  if (!found.ok()) return found.status();
  const Driver& driver = *found.value();
  std::vector<std::string> names;
  int count = 0;
  if (Status s = driver.device_get_count(&count); !s.ok()) return s;
  for (int i = 0; i < count; ++i) {
    cuda::DeviceNumber number = 0;
    char name[256] = "";
    if (Status s = driver.device_get(&number, i); !s.ok()) return s;
    cuda::Uuid uuid{};
    if (Status s = driver.device_get_name(name, sizeof name, number); !s.ok()) return s;
    if (Status s = driver.device_get_uuid(&uuid, number); !s.ok()) return s;
    const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(uuid[k]); };
    names.push_back(
        fmt::format("{} (GPU-{:02x}{:02x}{:02x}{:02x})", name, byte(0), byte(1), byte(2), byte(3)));
  }
  return names;
}

}  // namespace kolo::device

// Gpu: one device of this process, its streams and events, and copies between it and the host.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "device/driver.hpp"

namespace kolo::device {

/// A device in its primary context, which all libraries of a process share. Thread-safe.
class Gpu : public std::enable_shared_from_this<Gpu> {
 public:
  /// Code::invalid_argument if there is no such device, Code::system if there is no driver.
  static Result<std::shared_ptr<const Gpu>> of(int index);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  int index() const noexcept { return index_; }
  const Driver& driver() const noexcept { return driver_; }
  /// The same for all processes that use this device.
  Result<cuda::Uuid> uuid() const;

  /// The calling thread uses this device as long as the object lives.
  class Current {
   public:
    explicit Current(const Gpu& gpu);
    ~Current();
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    const Status& status() const noexcept { return status_; }

   private:
    const Driver& driver_;
    Status status_;
  };

  /// Code::invalid_argument unless all of it is memory of this device, in one allocation, and not managed.
  /// `name`: of the argument.
  Status require_own(std::string_view name, const void* data, std::size_t bytes) const;
  /// Code::invalid_argument for the stream of another device. Null is the default stream.
  Status require_own(cuda::Stream stream) const;

 private:
  Gpu(const Driver& driver, int index) : driver_(driver), index_(index) {}
  Status open();

  const Driver& driver_;
  const int index_;
  cuda::DeviceNumber number_ = 0;
  cuda::Context context_ = nullptr;
};

/// "NVIDIA H100 80GB HBM3 (GPU-5f1c6b2d)" of each device of this process: the name, and how the UUID begins,
/// as nvidia-smi shows it. Code::system if there is no driver, or it fails.
Result<std::vector<std::string>> names_of_gpus();

}  // namespace kolo::device

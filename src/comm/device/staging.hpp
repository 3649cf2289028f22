// Staging: the host's memory through which device memory travels, and the streams that carry it.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "device/gpu.hpp"
#include "device/stream.hpp"
#include "kolo/memory.hpp"

namespace kolo::comm {

/// Slots of memory that peers read in place and that the device copies to and from by itself. One thread uses
/// it.
class Staging {
 public:
  /// A piece of a call on its way.
  struct Slot {
    std::byte* memory = nullptr;
    device::Event down;  ///< after the copies to the host
    device::Event up;    ///< after the copies to the device
  };

  static Result<std::unique_ptr<Staging>> make(std::shared_ptr<const device::Gpu> gpu);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  const device::Gpu& gpu() const noexcept { return *gpu_; }
  device::Stream& down() noexcept { return down_; }
  device::Stream& up() noexcept { return up_; }
  /// So many slots of so many bytes each, or more of both. None is in use.
  Status reserve(std::size_t count, std::size_t bytes);
  std::vector<Slot>& slots() noexcept { return slots_; }

 private:
  explicit Staging(std::shared_ptr<const device::Gpu> gpu) : gpu_(std::move(gpu)) {}
  void release();

  const std::shared_ptr<const device::Gpu> gpu_;
  device::Stream down_, up_;
  SharedMemory memory_;
  bool is_registered_ = false;
  std::vector<Slot> slots_;
  std::size_t slot_bytes_ = 0;
};

}  // namespace kolo::comm

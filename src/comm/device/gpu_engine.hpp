// GpuEngine: what a communicator's calls on devices run on, which all its ranks choose alike.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "device/gpu.hpp"

namespace kolo::comm {

enum class GpuEngine : std::uint8_t { staged, nccl };

/// What one rank asks for and what it has, as it travels between processes.
struct GpuAbility {
  std::array<char, 8> wish{};     ///< KOLO_GPU; ends with a zero, as `trouble`
  std::int32_t nccl_version = 0;  ///< 0: NCCL cannot be loaded
  device::cuda::Uuid gpu{};
  std::array<char, 196> trouble{};  ///< why NCCL cannot be loaded

  /// Of this process with this device.
  static Result<GpuAbility> of(const device::Gpu& gpu);
};

struct GpuChoice {
  GpuEngine engine = GpuEngine::staged;
  std::string why;
};

/// The same on all ranks: NCCL where all have one version of it and each has a GPU to itself, unless a rank
/// asks for the other. Code::invalid_argument if no engine is what all ranks ask for.
Result<GpuChoice> choose_gpu_engine(std::span<const GpuAbility> ranks);

}  // namespace kolo::comm

// What differs between versions of PyTorch: a backend's base class, element types, the factor of a
// premultiplied sum, a stream's handle.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>

#include <c10/core/Stream.h>
#include <torch/version.h>

#if TORCH_VERSION_MAJOR >= 2
#include <torch/csrc/distributed/c10d/Backend.hpp>
#else
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif

#include "kolo/dtype.hpp"
#include "kolo/trouble.hpp"

namespace kolo::pytorch {

#if TORCH_VERSION_MAJOR >= 2
using Base = c10d::Backend;
#else
using Base = c10d::ProcessGroup;
#endif

/// Whether PyTorch has parts of groups made by their backend: before, Python makes those of NCCL alone.
template <typename B>
inline constexpr bool kBackendsSplit = requires {
  &B::split;
};

/// The name of the part that split() is to make; empty where this version does not tell it.
template <typename Options>
std::string name_of_part(const Options* options) {
  if constexpr (requires { options->group_name; }) return options != nullptr ? options->group_name : "";
  return {};
}

/// Whether the caller waits at once. Later versions tell, and take a null Work of a call that is over.
template <typename Asked>
bool waits_at_once(const Asked& options) {
  if constexpr (requires { options.asyncOp; }) return !options.asyncOp;
  return false;
}

/// What CallOptions::stream takes for a stream. Versions before 2.11 do not tell it: the host waits for what
/// the stream holds, and the default stream stands for it.
template <typename Stream = c10::Stream>
void* handle_of(const Stream& stream) {
  if constexpr (requires { stream.native_handle(); }) {
    return stream.native_handle();
  } else {
    stream.synchronize();
    return nullptr;
  }
}

/// The element types that 1.13 lacks.
inline std::optional<DType> newer_dtype(at::ScalarType type) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
  switch (type) {
    case at::ScalarType::UInt16:
      return DType::uint16;
    case at::ScalarType::UInt32:
      return DType::uint32;
    case at::ScalarType::UInt64:
      return DType::uint64;
    case at::ScalarType::Float8_e4m3fn:
      return DType::float8_e4m3fn;
    case at::ScalarType::Float8_e5m2:
      return DType::float8_e5m2;
    default:
      break;
  }
#endif
  static_cast<void>(type);
  return std::nullopt;
}

/// The factor of ReduceOp::PREMUL_SUM, a number or a tensor of one element: some versions hold a list of
/// tensors.
template <typename Supplement = c10d::NCCLPreMulSumSupplement>
double factor_of(const c10d::ReduceOp& op) {
  const auto* supplement = dynamic_cast<const Supplement*>(op.supplement_.get());
  if (supplement == nullptr) throw std::invalid_argument(with_code("kolo: PREMUL_SUM has no factor"));
  at::Tensor tensor;
  if constexpr (requires { supplement->tensor_factors; }) {
    if (!supplement->tensor_factors.empty()) tensor = supplement->tensor_factors.front();
  } else {
    tensor = supplement->tensor_factor;
  }
  if (!tensor.defined()) return supplement->double_factor;
  if (tensor.numel() != 1)
    throw std::invalid_argument(with_code("kolo: a factor of PREMUL_SUM is one number"));
  return tensor.item<double>();
}

}  // namespace kolo::pytorch

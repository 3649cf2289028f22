#include "kolo/train/clip_gradients.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <unordered_set>

#include "ddp/reducer.hpp"
#include "kolo/error.hpp"

namespace kolo {
namespace {

/// In an order that depends on the count alone: libtorch's sums depend on vector units and threads.
template <typename T>
double sum_of_squares(const T* values, std::int64_t count) {
  constexpr std::int64_t kLanes = 16;
  std::array<double, kLanes> sums{};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const auto value = static_cast<double>(values[i + lane]);
      sums[static_cast<std::size_t>(lane)] += value * value;
    }
  }
  for (std::int64_t lane = 0; i < count; ++i, ++lane) {
    const auto value = static_cast<double>(values[i]);
    sums[static_cast<std::size_t>(lane)] += value * value;
  }
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

double sum_of_squares(const at::Tensor& gradient) {
  if (gradient.is_complex() || !gradient.device().is_cpu())
    throw InvalidArgument("clip_gradients takes gradients of real numbers on the CPU", {});
  if (gradient.scalar_type() == at::kDouble) {
    const at::Tensor values = gradient.contiguous();
    return sum_of_squares(values.data_ptr<double>(), values.numel());
  }
  const at::Tensor values = gradient.to(at::kFloat).contiguous();
  return sum_of_squares(values.data_ptr<float>(), values.numel());
}

}  // namespace

double clip_gradients(const std::vector<at::Tensor>& parameters, double max_norm) {
  if (!(max_norm > 0) || !std::isfinite(max_norm))
    throw InvalidArgument("a max_norm of " + std::to_string(max_norm) + " is not positive and finite", {});
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;  // dense, or the values of sparse ones
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const at::Tensor& parameter : parameters) {
    if (const auto* reducer = train::Reducer::of(parameter); reducer && reducer->forward()) {
      throw InvalidArgument(
          "a norm over all gradients and overlap_forward exclude each other: steps are made bucket by bucket",
          {});
    }
    at::Tensor& gradient = parameter.mutable_grad();
    if (!gradient.defined() || !seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
    if (gradient.is_sparse()) {
      gradient = gradient.coalesce();
      gradients.push_back(gradient._values());
    } else {
      gradients.push_back(gradient);
    }
  }
  double total = 0;
  for (const at::Tensor& gradient : gradients) total += sum_of_squares(gradient);
  const double norm = std::sqrt(total);
  if (!std::isfinite(norm) || norm <= max_norm) return norm;
  for (at::Tensor& gradient : gradients) gradient.mul_(max_norm / norm);
  return norm;
}

}  // namespace kolo

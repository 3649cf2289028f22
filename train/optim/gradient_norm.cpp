#include "optim/gradient_norm.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>

#include "kolo/error.hpp"

namespace kolo::train {
namespace {

template <typename T>
double sum_of_squares_of(const T* values, std::int64_t count) {
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

}  // namespace

double sum_of_squares(const at::Tensor& tensor) {
  if (tensor.is_complex() || !tensor.device().is_cpu())
    throw InvalidArgumentError("norms are taken of real numbers on the CPU", {});
  if (tensor.scalar_type() == at::kDouble) {
    const at::Tensor values = tensor.contiguous();
    return sum_of_squares_of(values.data_ptr<double>(), values.numel());
  }
  const at::Tensor values = tensor.to(at::kFloat).contiguous();
  return sum_of_squares_of(values.data_ptr<float>(), values.numel());
}

void check_max_norm(double max_norm) {
  if (max_norm > 0 && std::isfinite(max_norm)) return;
  throw InvalidArgumentError("a max_norm of " + std::to_string(max_norm) + " is not positive and finite", {});
}

void scale_to_norm(const std::vector<at::Tensor>& gradients, double norm, double max_norm) {
  if (!std::isfinite(norm) || norm <= max_norm) return;
  const c10::NoGradGuard no_grad;
  for (const at::Tensor& gradient : gradients) {
    if (gradient.defined()) gradient.mul_(max_norm / norm);
  }
}

}  // namespace kolo::train

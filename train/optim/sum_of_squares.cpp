#include "optim/sum_of_squares.hpp"

#include <array>
#include <cstdint>

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
    throw InvalidArgument("norms are taken of real numbers on the CPU", {});
  if (tensor.scalar_type() == at::kDouble) {
    const at::Tensor values = tensor.contiguous();
    return sum_of_squares_of(values.data_ptr<double>(), values.numel());
  }
  const at::Tensor values = tensor.to(at::kFloat).contiguous();
  return sum_of_squares_of(values.data_ptr<float>(), values.numel());
}

}  // namespace kolo::train

#include "kolo/train/parallel_model.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "kolo/error.hpp"
#include "kolo/train/optim.hpp"
#include "placement/placement.hpp"
#include "ranks/agreement.hpp"
#include "ranks/holders.hpp"

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

double sum_of_squares_on_cpu(const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kDouble) {
    const at::Tensor values = tensor.contiguous();
    return sum_of_squares_of(values.data_ptr<double>(), values.numel());
  }
  const at::Tensor values = tensor.to(at::kFloat).contiguous();
  return sum_of_squares_of(values.data_ptr<float>(), values.numel());
}

}  // namespace

double sum_of_squares(std::span<const at::Tensor> tensors) {
  double total = 0;
  std::vector<at::Tensor> norms;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.is_complex()) throw InvalidArgumentError("norms are taken of real numbers", {});
    if (tensor.device().is_cpu()) {
      total += sum_of_squares_on_cpu(tensor);
    } else {
      norms.push_back(at::linalg_vector_norm(tensor, 2, {}, false, at::kDouble));
    }
  }
  return norms.empty() ? total : total + at::stack(norms).square_().sum().item<double>();
}

}  // namespace kolo::train

namespace kolo {
namespace {

/// The numbers of a parameter's gradient: of a sparse one the rows that there are, each once. Undefined where
/// there is none.
at::Tensor numbers_of_gradient(const at::Tensor& parameter) {
  at::Tensor& gradient = parameter.mutable_grad();
  if (!gradient.defined() || !gradient.is_sparse()) return gradient;
  gradient = gradient.coalesce();
  return gradient._values();
}

void check_max_norm(double max_norm) {
  if (max_norm > 0 && std::isfinite(max_norm)) return;
  throw InvalidArgumentError("a max_norm of " + std::to_string(max_norm) + " is not positive and finite", {});
}

void scale_to_norm(const std::vector<at::Tensor>& gradients, double norm, double max_norm) {
  if (!std::isfinite(norm) || norm <= max_norm) return;
  for (const at::Tensor& gradient : gradients) gradient.mul_(max_norm / norm);
}

struct PlacedGradients {
  std::vector<at::Tensor> all;
  std::vector<at::Tensor> counted;  ///< by this rank
};

/// `use` gets those of trained parameters. Where it throws, the other holders get an AbortedError.
template <typename Use>
auto use_gradients(const PlacedModel& model, const char* name, const Use& use) {
  try {
    PlacedGradients gradients;
    for (std::size_t i = 0; i < model.parameters().size(); ++i) {
      const PlacedParameter& parameter = model.parameters()[i];
      if (!parameter.is_trained) continue;
      train::require_norm(parameter.tensor, name);
      const at::Tensor numbers = numbers_of_gradient(parameter.tensor);
      if (!numbers.defined()) continue;
      gradients.all.push_back(numbers);
      if (model.counts(i)) gradients.counted.push_back(numbers);
    }
    return use(gradients);
  } catch (...) {
    if (model.holders().valid()) train::tell_others(model.holders());
    throw;
  }
}

/// Collective over the holders: the norm; sets this rank's gradients.
double norm_of(const PlacedModel& model, const char* name, std::vector<at::Tensor>& gradients) {
  const c10::NoGradGuard no_grad;
  double total = use_gradients(model, name, [&](PlacedGradients& found) {
    gradients = std::move(found.all);
    return train::sum_of_squares(found.counted);
  });
  if (model.holders().valid()) model.holders().all_reduce(Buffer(&total, 1, DType::float64));
  return std::sqrt(total);
}

}  // namespace

double gradient_norm(const PlacedModel& model) {
  std::vector<at::Tensor> gradients;
  return norm_of(model, "gradient_norm()", gradients);
}

double clip_gradients(const PlacedModel& model, double max_norm) {
  check_max_norm(max_norm);
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  const double norm = norm_of(model, "clip_gradients()", gradients);
  scale_to_norm(gradients, norm, max_norm);
  return norm;
}

double clip_gradients(const std::vector<at::Tensor>& parameters, double max_norm) {
  check_max_norm(max_norm);
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const at::Tensor& parameter : parameters) {
    train::require_no_part(parameter, "clip_gradients()");
    if (!seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
    const at::Tensor numbers = numbers_of_gradient(parameter);
    if (numbers.defined()) gradients.push_back(numbers);
  }
  const double norm = std::sqrt(train::sum_of_squares(gradients));
  scale_to_norm(gradients, norm, max_norm);
  return norm;
}

bool gradients_are_finite(const PlacedModel& model) {
  const c10::NoGradGuard no_grad;
  std::uint8_t is_finite = use_gradients(model, "gradients_are_finite()", [](const PlacedGradients& found) {
    return std::ranges::all_of(
        found.all, [](const at::Tensor& numbers) { return at::isfinite(numbers).all().item<bool>(); });
  });
  if (model.holders().valid()) model.holders().all_reduce(Buffer(&is_finite, 1, DType::uint8), ReduceOp::min);
  return is_finite != 0;
}

SumOverRanks sum_over_ranks(const PlacedModel& model) {
  std::unordered_map<const c10::TensorImpl*, std::size_t> index_of;
  for (std::size_t i = 0; i < model.parameters().size(); ++i)
    index_of[model.parameters()[i].tensor.unsafeGetTensorImpl()] = i;
  return [model, index_of](const std::vector<at::Tensor>& parameters, std::vector<double>& squares) {
    std::vector<double> sums(2 * model.whole().size() + 1);  // two of each parameter; how many are unknown
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto found = index_of.find(parameters[i].unsafeGetTensorImpl());
      places.push_back(found == index_of.end() ? model.whole().size() : model.place(found->second));
      if (found == index_of.end()) {
        sums.back() += 1;
      } else if (model.counts(found->second)) {
        std::copy_n(squares.begin() + 2 * static_cast<std::ptrdiff_t>(i), 2,
                    sums.begin() + 2 * static_cast<std::ptrdiff_t>(places[i]));
      }
    }
    if (model.holders().valid()) model.holders().all_reduce(Buffer(sums));
    if (sums.back() > 0) {
      throw InvalidArgumentError(
          "sum_over_ranks(): an optimizer has parameters that the placed model does not have", {});
    }
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      squares[2 * i] = sums[2 * places[i]];
      squares[2 * i + 1] = sums[2 * places[i] + 1];
    }
  };
}

}  // namespace kolo

#include "kolo/train/clip_gradients.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <string>
#include <unordered_set>

#include "ddp/reducer.hpp"
#include "kolo/error.hpp"
#include "optim/sum_of_squares.hpp"

namespace kolo {

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
  for (const at::Tensor& gradient : gradients) total += train::sum_of_squares(gradient);
  const double norm = std::sqrt(total);
  if (!std::isfinite(norm) || norm <= max_norm) return norm;
  for (at::Tensor& gradient : gradients) gradient.mul_(max_norm / norm);
  return norm;
}

}  // namespace kolo

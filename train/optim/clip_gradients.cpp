#include "kolo/train/clip_gradients.hpp"

#include <c10/core/GradMode.h>

#include <cmath>
#include <unordered_set>

#include "ddp/reducer.hpp"
#include "kolo/error.hpp"
#include "optim/gradient_norm.hpp"

namespace kolo {

double clip_gradients(const std::vector<at::Tensor>& parameters, double max_norm) {
  train::check_max_norm(max_norm);
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
  train::scale_to_norm(gradients, norm, max_norm);
  return norm;
}

}  // namespace kolo

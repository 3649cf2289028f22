#include "kolo/train/optim.hpp"

#include <c10/core/GradMode.h>

#include <cmath>
#include <unordered_set>

#include "gradients/reducer.hpp"
#include "kolo/error.hpp"
#include "libtorch/gradient_listener.hpp"
#include "optim/gradient_norm.hpp"
#include "ranks/parts.hpp"

namespace kolo {
namespace {

/// Throws InvalidArgumentError for a parameter whose gradient is elsewhere, or one of which other ranks have
/// more.
void require_all_gradients(const at::Tensor& parameter) {
  train::require_no_part(parameter, "clip_gradients()");
  const auto* const reducer = train::Reducer::of(parameter);
  if (reducer && reducer->outlasts_backward()) {
    throw InvalidArgumentError(
        "a norm over all gradients and overlap_forward exclude each other: steps are made bucket by bucket",
        {});
  }
  if (reducer || train::listener_of(parameter) == nullptr) return;
  throw InvalidArgumentError(
      "clip_gradients(): the gradient of a parameter is in shards: call "
      "ShardedDataParallel::clip_gradients()",
      {});
}

}  // namespace

double clip_gradients(const std::vector<at::Tensor>& parameters, double max_norm) {
  train::check_max_norm(max_norm);
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;  // dense, or the values of sparse ones
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const at::Tensor& parameter : parameters) {
    require_all_gradients(parameter);
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

#include "pipeline/tied_parameters.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>

#include <utility>

#include "kolo/train/tensor.hpp"

namespace kolo::train {
namespace {

/// The gradient, zero where there is none, dense and contiguous.
at::Tensor dense_gradient_of(const at::Tensor& parameter) {
  at::Tensor& gradient = parameter.mutable_grad();
  if (!gradient.defined()) gradient = at::zeros(parameter.sizes(), parameter.options().requires_grad(false));
  gradient = (gradient.is_sparse() ? gradient.to_dense() : gradient).contiguous();
  return gradient;
}

}  // namespace

TiedParameters::TiedParameters(std::vector<Pair> pairs, const Communicator& ends)
    : pairs_(std::move(pairs)), ends_(ends) {
  const c10::NoGradGuard no_grad;
  for (const Pair& pair : pairs_) {
    const bool has_first = pair.first.defined(), has_last = pair.last.defined();
    if (has_first && has_last) {
      if (pair.first.is_same(pair.last)) continue;  // autograd adds up
      pair.last.copy_(pair.first);
    } else if (has_first || has_last) {
      broadcast_async(has_first ? pair.first : pair.last, 0, ends_).wait();
    }
    if (has_first) own_.push_back(pair.first);
    if (has_last) own_.push_back(pair.last);
  }
}

void TiedParameters::begin() {
  earlier_.clear();
  for (const at::Tensor& parameter : own_) {
    // A copy, as averages may write the new gradient to the memory of the old one.
    at::Tensor& gradient = parameter.mutable_grad();
    earlier_.push_back(gradient.defined() ? gradient.clone() : gradient);
    gradient = at::Tensor();
  }
}

void TiedParameters::finish() {
  const c10::NoGradGuard no_grad;
  std::vector<TensorWork> works;
  for (const Pair& pair : pairs_) {
    if (pair.first.defined() && pair.last.defined()) {
      if (pair.first.is_same(pair.last)) continue;
      const at::Tensor sum = dense_gradient_of(pair.first) + dense_gradient_of(pair.last);
      pair.first.mutable_grad() = sum;
      pair.last.mutable_grad() = sum.clone();
    } else if (pair.first.defined() || pair.last.defined()) {
      // Both weights have the gradient with the same bits, and so stay equal.
      const at::Tensor gradient = dense_gradient_of(pair.first.defined() ? pair.first : pair.last);
      works.push_back(all_reduce_async(gradient, ends_, ReduceOp::sum, {.wire = Wire::native}));
    }
  }
  wait_all(works);
  restore();
}

void TiedParameters::restore() {
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < earlier_.size(); ++i) {
    if (!earlier_[i].defined()) continue;
    at::Tensor& gradient = own_[i].mutable_grad();
    if (gradient.defined()) {
      gradient.add_(earlier_[i]);
    } else {
      gradient = earlier_[i];
    }
  }
  earlier_.clear();
}

}  // namespace kolo::train

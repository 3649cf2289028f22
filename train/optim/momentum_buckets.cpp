#include "optim/momentum_buckets.hpp"

#include <ATen/Functions.h>

#include <cmath>
#include <numeric>
#include <tuple>
#include <vector>

#include "gradients/bucket_assignment.hpp"
#include "kolo/error.hpp"

namespace kolo::train {

MomentumBuckets::MomentumBuckets(const AveragedParameters& parameters, std::uint64_t bucket_bytes)
    : momenta_(parameters.size()) {
  std::vector<NamedTensor> named;
  std::vector<ParameterSize> sizes;
  for (const auto& parameter : parameters) {
    named.push_back({parameter.name, parameter.tensor});
    sizes.push_back({parameter.tensor.nbytes(), DType::float32});
  }
  std::vector<std::size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (const auto& members : assign_buckets(sizes, order, bucket_bytes, bucket_bytes)) {
    const FlatTensors& bucket = buckets_.emplace_back(named, members);
    for (std::size_t m = 0; m < members.size(); ++m) momenta_[members[m]] = bucket.view(m);
  }
}

void MomentumBuckets::check(const GradientHook& hook) const {
  for (const FlatTensors& bucket : buckets_) hook.check(bucket.parts());
}

void MomentumBuckets::fill(std::span<const AdamParameter> parameters) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [parameter, state, options] = parameters[i];
    const auto [beta1, beta2] = options->betas();
    at::Tensor& momentum = momenta_[i];
    momentum.copy_(state->exp_avg()).mul_(beta1);
    at::Tensor gradient = parameter.grad();
    if (!gradient.defined()) gradient = at::zeros_like(parameter);
    if (gradient.is_sparse()) throw InvalidArgumentError("OneBitAdam takes no sparse gradients", {});
    if (options->weight_decay() != 0) gradient = gradient.add(parameter, options->weight_decay());
    // An infinite gradient becomes NaN here, so that the step is skipped.
    const at::Tensor least = gradient.abs().mul_(std::sqrt(1 - beta2));
    momentum.addcdiv_(gradient, at::maximum(state->exp_avg_sq().sqrt(), least).add_(options->eps()),
                      1 - beta1);
  }
}

bool MomentumBuckets::average(GradientHook& hook, Communicator& communicator) {
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    const Buffer momenta = buckets_[index].host();
    hook.average({.gradients = {static_cast<float*>(momenta.data), momenta.count},
                  .parts = buckets_[index].parts(),
                  .index = index},
                 communicator);
  }
  return are_finite(buckets_);
}

void MomentumBuckets::apply(std::span<const AdamParameter> parameters) const {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [parameter, state, options] = parameters[i];
    state->step(state->step() + 1);
    const double correction = 1 - std::pow(std::get<0>(options->betas()), static_cast<double>(state->step()));
    state->exp_avg().copy_(momenta_[i]);
    at::Tensor moved = parameter;
    moved.add_(state->exp_avg(), -options->lr() / correction);
  }
}

}  // namespace kolo::train

#include "optim/momentum_buckets.hpp"

#include <ATen/Functions.h>

#include <cmath>
#include <numeric>
#include <tuple>

#include "gradients/bucket_assignment.hpp"
#include "gradients/finite.hpp"
#include "kolo/error.hpp"

namespace kolo::train {

MomentumBuckets::MomentumBuckets(const AveragedParameters& parameters, std::uint64_t bucket_bytes)
    : momenta_(parameters.size()) {
  std::vector<ParameterSize> sizes;
  for (const auto& parameter : parameters) sizes.push_back({parameter.tensor.nbytes(), DType::float32});
  std::vector<std::size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (const auto& members : assign_buckets(sizes, order, bucket_bytes, bucket_bytes)) {
    Bucket& bucket = buckets_.emplace_back();
    std::uint64_t count = 0;
    for (const std::size_t i : members) {
      const at::Tensor& tensor = parameters[i].tensor;
      const auto elements = static_cast<std::uint64_t>(tensor.numel());
      bucket.parts.push_back({parameters[i].name, tensor.sizes().vec(), count, elements});
      count += elements;
    }
    bucket.momenta = at::empty({static_cast<std::int64_t>(count)}, at::kFloat);
    for (std::size_t m = 0; m < members.size(); ++m) {
      const GradientPart& part = bucket.parts[m];
      momenta_[members[m]] =
          bucket.momenta
              .narrow(0, static_cast<std::int64_t>(part.offset), static_cast<std::int64_t>(part.count))
              .view(part.shape);
    }
  }
}

void MomentumBuckets::check(const GradientHook& hook) const {
  for (const Bucket& bucket : buckets_) hook.check(bucket.parts);
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
  bool is_finite = true;
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    Bucket& bucket = buckets_[index];
    const std::span<float> values(bucket.momenta.data_ptr<float>(),
                                  static_cast<std::size_t>(bucket.momenta.numel()));
    hook.average({.gradients = values, .parts = bucket.parts, .index = index}, communicator);
    is_finite = is_finite && are_finite(values);
  }
  return is_finite;
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

#include <c10/core/GradMode.h>

#include <algorithm>
#include <string>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"
#include "kolo/train/optim.hpp"

namespace kolo {

ExponentialMovingAverage::ExponentialMovingAverage(std::vector<at::Tensor> parameters, double decay)
    : parameters_(std::move(parameters)), decay_(decay) {
  if (!(decay >= 0 && decay < 1)) {
    throw InvalidArgumentError(
        "the decay of a moving average is at least 0 and less than 1: " + std::to_string(decay), {});
  }
  const c10::NoGradGuard no_grad;
  for (const at::Tensor& parameter : parameters_) {
    // In 16 bits a small part of a parameter would be rounded away.
    const bool has_16_bits = parameter.is_floating_point() && parameter.element_size() == 2;
    averages_.push_back(has_16_bits ? parameter.to(at::kFloat) : parameter.clone());
  }
}

void ExponentialMovingAverage::update() {
  if (is_applied_) throw InvalidArgumentError("a moving average that is applied cannot be updated", {});
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < averages_.size(); ++i)
    averages_[i].lerp_(parameters_[i].to(averages_[i].scalar_type()), 1 - decay_);
}

void ExponentialMovingAverage::apply() {
  if (is_applied_) throw InvalidArgumentError("the moving average is applied already", {});
  is_applied_ = true;
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < averages_.size(); ++i) {
    kept_.push_back(parameters_[i].clone());
    parameters_[i].copy_(averages_[i]);
  }
}

void ExponentialMovingAverage::restore() {
  is_applied_ = false;
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < kept_.size(); ++i) parameters_[i].copy_(kept_[i]);
  kept_.clear();
}

PlacedModel ExponentialMovingAverage::placed(const PlacedModel& model) const {
  const auto require_known = [&] {
    for (const at::Tensor& parameter : parameters_) {
      const auto is_it = [&](const PlacedParameter& one) { return one.tensor.is_same(parameter); };
      if (std::ranges::none_of(model.parameters(), is_it))
        throw InvalidArgumentError(
            "a tensor of shape " + c10::str(parameter.sizes()) + " is averaged and not of the model", {});
    }
  };
  if (model.holders().valid()) agree(model.holders(), "ExponentialMovingAverage", "", require_known);
  require_known();
  std::vector<PlacedParameter> result;
  for (PlacedParameter one : model.parameters()) {
    const auto is_it = [&](const at::Tensor& parameter) { return parameter.is_same(one.tensor); };
    const auto found = std::ranges::find_if(parameters_, is_it);
    if (found == parameters_.end()) continue;
    one.tensor = averages_[static_cast<std::size_t>(found - parameters_.begin())];
    result.push_back(std::move(one));
  }
  return PlacedModel(std::move(result), model.holders());
}

}  // namespace kolo

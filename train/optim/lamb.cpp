#include "kolo/train/optim.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <torch/optim/adam.h>
#include <torch/optim/serialize.h>

#include <cmath>
#include <utility>

#include "optim/layers.hpp"
#include "placement/norms.hpp"

namespace kolo {

using LAMBState = torch::optim::AdamParamState;

namespace {

/// Moves the moments, and returns where they point.
at::Tensor update_of(const train::Layer<LAMBOptions>& layer, LAMBState& state) {
  const auto [beta1, beta2] = layer.options->betas();
  if (state.step() == 0) {
    state.exp_avg(at::zeros_like(layer.parameter));
    state.exp_avg_sq(at::zeros_like(layer.parameter));
  }
  state.step(state.step() + 1);
  const auto step = static_cast<double>(state.step());
  state.exp_avg().mul_(beta1).add_(layer.gradient, 1 - beta1);
  state.exp_avg_sq().mul_(beta2).addcmul_(layer.gradient, layer.gradient, 1 - beta2);
  at::Tensor root = state.exp_avg_sq().div(1 - std::pow(beta2, step)).sqrt_().add_(layer.options->eps());
  at::Tensor update = state.exp_avg().div(1 - std::pow(beta1, step)).div_(root);
  if (layer.weight_decay() != 0) update.add_(layer.parameter, layer.weight_decay());
  return update;
}

}  // namespace

LAMBOptions::LAMBOptions(double lr) : lr_(lr) {}

double LAMBOptions::get_lr() const {
  return lr();
}

void LAMBOptions::set_lr(double new_lr) {
  lr(new_lr);
}

void LAMBOptions::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(lr);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(betas);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(eps);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(weight_decay);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(exclude_vectors);
}

void LAMBOptions::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, lr);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(Betas, betas);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, eps);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, weight_decay);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(bool, exclude_vectors);
}

LAMB::LAMB(std::vector<torch::optim::OptimizerParamGroup> groups, const LAMBOptions& defaults,
           SumOverRanks sum_over_ranks)
    : Optimizer(std::move(groups), std::make_unique<LAMBOptions>(defaults)),
      sum_over_ranks_(std::move(sum_over_ranks)) {
  for (auto& group : param_groups()) {
    const auto& options = static_cast<const LAMBOptions&>(group.options());
    train::require_positive_or_zero("the learning rate of LAMB", options.lr());
    train::require_positive_or_zero("beta1 of LAMB", std::get<0>(options.betas()), 1);
    train::require_positive_or_zero("beta2 of LAMB", std::get<1>(options.betas()), 1);
    train::require_positive_or_zero("eps of LAMB", options.eps());
    train::require_positive_or_zero("the weight_decay of LAMB", options.weight_decay());
  }
}

LAMB::LAMB(std::vector<at::Tensor> parameters, const LAMBOptions& options, SumOverRanks sum_over_ranks)
    : LAMB({torch::optim::OptimizerParamGroup(std::move(parameters))}, options, std::move(sum_over_ranks)) {}

at::Tensor LAMB::step(LossClosure closure) {
  const at::Tensor loss = train::loss_of(closure);
  const c10::NoGradGuard no_grad;
  const auto layers = train::layers_of<LAMBOptions>(*this, "LAMB", sum_over_ranks_);
  std::vector<at::Tensor> updates(layers.size());
  std::vector<double> squares(2 * layers.size());  // of each parameter, of its update
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!layers[i].gradient.defined()) continue;
    updates[i] = update_of(layers[i], train::state_for<LAMBState>(*this, layers[i].parameter));
    if (!layers[i].is_adapted) continue;
    squares[2 * i] = train::sum_of_squares(layers[i].parameter);
    squares[2 * i + 1] = train::sum_of_squares(updates[i]);
  }
  train::sum_squares(sum_over_ranks_, layers, squares);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!updates[i].defined()) continue;
    const double weights = std::sqrt(squares[2 * i]), length = std::sqrt(squares[2 * i + 1]);
    const double ratio = weights > 0 && length > 0 ? weights / length : 1;
    layers[i].parameter.add_(updates[i], -layers[i].options->lr() * ratio);
  }
  return loss;
}

void LAMB::save(torch::serialize::OutputArchive& archive) const {
  torch::optim::serialize<LAMBState, LAMBOptions>(archive, *this);
}

void LAMB::load(torch::serialize::InputArchive& archive) {
  load_or_refuse("LAMB", [&] { torch::optim::serialize<LAMBState, LAMBOptions>(archive, *this); });
}

}  // namespace kolo

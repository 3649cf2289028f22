#include "kolo/train/optim.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <torch/optim/serialize.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <utility>

#include "optim/layers.hpp"
#include "placement/norms.hpp"

namespace kolo {

using LARSState = torch::optim::SGDParamState;

LARSOptions::LARSOptions(double lr) : lr_(lr) {}

double LARSOptions::get_lr() const {
  return lr();
}

void LARSOptions::set_lr(double new_lr) {
  lr(new_lr);
}

void LARSOptions::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(lr);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(momentum);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(weight_decay);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(trust_coefficient);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(exclude_vectors);
}

void LARSOptions::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, lr);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, momentum);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, weight_decay);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, trust_coefficient);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(bool, exclude_vectors);
}

LARS::LARS(std::vector<torch::optim::OptimizerParamGroup> groups, const LARSOptions& defaults,
           SumOverRanks sum_over_ranks)
    : Optimizer(std::move(groups), std::make_unique<LARSOptions>(defaults)),
      sum_over_ranks_(std::move(sum_over_ranks)) {
  for (auto& group : param_groups()) {
    const auto& options = static_cast<const LARSOptions&>(group.options());
    train::require_positive_or_zero("the learning rate of LARS", options.lr());
    train::require_positive_or_zero("the momentum of LARS", options.momentum(), 1);
    train::require_positive_or_zero("the weight_decay of LARS", options.weight_decay());
    train::require_positive_or_zero("the trust_coefficient of LARS", options.trust_coefficient());
  }
}

LARS::LARS(std::vector<at::Tensor> parameters, const LARSOptions& options, SumOverRanks sum_over_ranks)
    : LARS({torch::optim::OptimizerParamGroup(std::move(parameters))}, options, std::move(sum_over_ranks)) {}

at::Tensor LARS::step(LossClosure closure) {
  const at::Tensor loss = train::loss_of(closure);
  const c10::NoGradGuard no_grad;
  const auto layers = train::layers_of<LARSOptions>(*this, "LARS", sum_over_ranks_);
  std::vector<double> squares(2 * layers.size());  // of each parameter, of its gradient
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!layers[i].is_adapted || !layers[i].gradient.defined()) continue;
    squares[2 * i] = train::sum_of_squares(layers[i].parameter);
    squares[2 * i + 1] = train::sum_of_squares(layers[i].gradient);
  }
  train::sum_squares(sum_over_ranks_, layers, squares);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto& [parameter, gradient, options, is_adapted] = layers[i];
    if (!gradient.defined()) continue;
    const double decay = layers[i].weight_decay();
    const double weights = std::sqrt(squares[2 * i]), slopes = std::sqrt(squares[2 * i + 1]);
    double rate = options->lr();
    if (weights > 0 && slopes > 0)
      rate *= options->trust_coefficient() * weights / (slopes + decay * weights);
    const at::Tensor direction = decay == 0 ? gradient : gradient.add(parameter, decay);
    if (options->momentum() == 0) {
      parameter.add_(direction, -rate);
      continue;
    }
    auto& state = train::state_for<LARSState>(*this, parameter);
    if (!state.momentum_buffer().defined()) state.momentum_buffer(at::zeros_like(parameter));
    parameter.sub_(state.momentum_buffer().mul_(options->momentum()).add_(direction, rate));
  }
  return loss;
}

void LARS::save(torch::serialize::OutputArchive& archive) const {
  torch::optim::serialize<LARSState, LARSOptions>(archive, *this);
}

void LARS::load(torch::serialize::InputArchive& archive) {
  load_or_refuse("LARS", [&] { torch::optim::serialize<LARSState, LARSOptions>(archive, *this); });
}

}  // namespace kolo

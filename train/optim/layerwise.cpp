// LARS and LAMB: optimizers that take norms of layers.
#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <torch/optim/adam.h>
#include <torch/optim/serialize.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/optim.hpp"
#include "placement/placement.hpp"
#include "ranks/holders.hpp"

namespace kolo {
namespace {

using LARSState = torch::optim::SGDParamState;
using LAMBState = torch::optim::AdamParamState;

/// A parameter with its gradient, which may be undefined.
template <typename Options>
struct Layer {
  at::Tensor parameter;
  at::Tensor gradient;
  const Options* options;
  /// Has a rate of its own, and decays.
  bool is_adapted;

  double weight_decay() const { return is_adapted ? options->weight_decay() : 0; }
};

/// Of all groups. Throws InvalidArgumentError for a sparse gradient, parameters elsewhere than on the CPU,
/// and parts of parameters without a sum over their ranks.
template <typename Options>
std::vector<Layer<Options>> layers_of(torch::optim::Optimizer& optimizer, const std::string& name,
                                      const SumOverRanks& sum_over_ranks) {
  std::vector<Layer<Options>> layers;
  for (auto& group : optimizer.param_groups()) {
    const auto& options = static_cast<const Options&>(group.options());
    for (const at::Tensor& parameter : group.params()) {
      if (!parameter.device().is_cpu() || parameter.is_complex())
        throw InvalidArgumentError(name + " takes parameters of real numbers on the CPU", {});
      if (!sum_over_ranks) train::require_undivided(parameter, name);
      const at::Tensor& gradient = parameter.grad();
      if (gradient.defined() && gradient.is_sparse())
        throw InvalidArgumentError(
            name + " takes dense gradients alone: a table of rows has no norm to go by", {});
      layers.push_back({parameter, gradient, &options, !(options.exclude_vectors() && parameter.dim() <= 1)});
    }
  }
  return layers;
}

/// Sums of squares over the ranks, of this rank's ones.
template <typename Options>
void sum_squares(const SumOverRanks& sum_over_ranks, const std::vector<Layer<Options>>& layers,
                 std::vector<double>& squares) {
  if (!sum_over_ranks) return;
  std::vector<at::Tensor> parameters;
  for (const Layer<Options>& layer : layers) parameters.push_back(layer.parameter);
  sum_over_ranks(parameters, squares);
  if (squares.size() != 2 * layers.size())
    throw InvalidArgumentError("a sum over ranks has changed the number of sums", {});
}

/// For the options of optimizers.
void require_positive_or_zero(const std::string& name, double value, double limit = INFINITY) {
  if (value >= 0 && value < limit) return;
  throw InvalidArgumentError(name + " is " + std::to_string(value) + ": out of its range", {});
}

/// Runs the closure, if there is one, with a graph.
at::Tensor loss_of(const torch::optim::Optimizer::LossClosure& closure) {
  if (!closure) return {};
  const at::AutoGradMode with_graph(true);
  return closure();
}

/// The state of a parameter, made in its first step.
template <typename State>
State& state_for(torch::optim::Optimizer& optimizer, const at::Tensor& parameter) {
  auto& state = state_of(optimizer, parameter);
  if (!state) state = std::make_unique<State>();
  return static_cast<State&>(*state);
}

/// Moves the moments, and returns where they point.
at::Tensor update_of(const Layer<LAMBOptions>& layer, LAMBState& state) {
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
    require_positive_or_zero("the learning rate of LARS", options.lr());
    require_positive_or_zero("the momentum of LARS", options.momentum(), 1);
    require_positive_or_zero("the weight_decay of LARS", options.weight_decay());
    require_positive_or_zero("the trust_coefficient of LARS", options.trust_coefficient());
  }
}

LARS::LARS(std::vector<at::Tensor> parameters, const LARSOptions& options, SumOverRanks sum_over_ranks)
    : LARS({torch::optim::OptimizerParamGroup(std::move(parameters))}, options, std::move(sum_over_ranks)) {}

at::Tensor LARS::step(LossClosure closure) {
  const at::Tensor loss = loss_of(closure);
  const c10::NoGradGuard no_grad;
  const auto layers = layers_of<LARSOptions>(*this, "LARS", sum_over_ranks_);
  std::vector<double> squares(2 * layers.size());  // of each parameter, of its gradient
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!layers[i].is_adapted || !layers[i].gradient.defined()) continue;
    squares[2 * i] = train::sum_of_squares(layers[i].parameter);
    squares[2 * i + 1] = train::sum_of_squares(layers[i].gradient);
  }
  sum_squares(sum_over_ranks_, layers, squares);
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
    auto& state = state_for<LARSState>(*this, parameter);
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
    require_positive_or_zero("the learning rate of LAMB", options.lr());
    require_positive_or_zero("beta1 of LAMB", std::get<0>(options.betas()), 1);
    require_positive_or_zero("beta2 of LAMB", std::get<1>(options.betas()), 1);
    require_positive_or_zero("eps of LAMB", options.eps());
    require_positive_or_zero("the weight_decay of LAMB", options.weight_decay());
  }
}

LAMB::LAMB(std::vector<at::Tensor> parameters, const LAMBOptions& options, SumOverRanks sum_over_ranks)
    : LAMB({torch::optim::OptimizerParamGroup(std::move(parameters))}, options, std::move(sum_over_ranks)) {}

at::Tensor LAMB::step(LossClosure closure) {
  const at::Tensor loss = loss_of(closure);
  const c10::NoGradGuard no_grad;
  const auto layers = layers_of<LAMBOptions>(*this, "LAMB", sum_over_ranks_);
  std::vector<at::Tensor> updates(layers.size());
  std::vector<double> squares(2 * layers.size());  // of each parameter, of its update
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!layers[i].gradient.defined()) continue;
    updates[i] = update_of(layers[i], state_for<LAMBState>(*this, layers[i].parameter));
    if (!layers[i].is_adapted) continue;
    squares[2 * i] = train::sum_of_squares(layers[i].parameter);
    squares[2 * i + 1] = train::sum_of_squares(updates[i]);
  }
  sum_squares(sum_over_ranks_, layers, squares);
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

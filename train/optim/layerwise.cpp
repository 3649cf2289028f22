// LARS and LAMB: optimizers that take norms of layers.
#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <torch/optim/adam.h>
#include <torch/optim/serialize.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "kolo/error.hpp"
#include "kolo/train/optim.hpp"
#include "placement/placement.hpp"
#include "ranks/holders.hpp"

namespace kolo {
namespace {

template <typename Options>
constexpr const char* kName = "LARS";
template <>
constexpr const char* kName<LAMBOptions> = "LAMB";

template <typename Options>
using StateOf = std::conditional_t<std::is_same_v<Options, LARSOptions>, torch::optim::SGDParamState,
                                   torch::optim::AdamParamState>;

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

/// Of all groups. Throws InvalidArgumentError for a sparse gradient, complex parameters, and parts of
/// parameters without a sum over their ranks.
template <typename Options>
std::vector<Layer<Options>> layers_of(torch::optim::Optimizer& optimizer,
                                      const SumOverRanks& sum_over_ranks) {
  const std::string name = kName<Options>;
  std::vector<Layer<Options>> layers;
  for (auto& group : optimizer.param_groups()) {
    const auto& options = static_cast<const Options&>(group.options());
    for (const at::Tensor& parameter : group.params()) {
      if (parameter.is_complex()) throw InvalidArgumentError(name + " takes parameters of real numbers", {});
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

void require_positive_or_zero(const std::string& name, double value, double limit = INFINITY) {
  if (value >= 0 && value < limit) return;
  throw InvalidArgumentError(name + " is " + std::to_string(value) + ": out of its range", {});
}

void require_valid(const LARSOptions& options) {
  require_positive_or_zero("the learning rate of LARS", options.lr());
  require_positive_or_zero("the momentum of LARS", options.momentum(), 1);
  require_positive_or_zero("the weight_decay of LARS", options.weight_decay());
  require_positive_or_zero("the trust_coefficient of LARS", options.trust_coefficient());
}

void require_valid(const LAMBOptions& options) {
  require_positive_or_zero("the learning rate of LAMB", options.lr());
  require_positive_or_zero("beta1 of LAMB", std::get<0>(options.betas()), 1);
  require_positive_or_zero("beta2 of LAMB", std::get<1>(options.betas()), 1);
  require_positive_or_zero("eps of LAMB", options.eps());
  require_positive_or_zero("the weight_decay of LAMB", options.weight_decay());
}

/// The state of a parameter, made in its first step.
template <typename Options>
StateOf<Options>& state_for(torch::optim::Optimizer& optimizer, const Layer<Options>& layer) {
  auto& state = state_of(optimizer, layer.parameter);
  if (!state) state = std::make_unique<StateOf<Options>>();
  return static_cast<StateOf<Options>&>(*state);
}

/// What a layer is moved by, but for its rate. The norms are of the layer and of this.
at::Tensor update_of(torch::optim::Optimizer&, const Layer<LARSOptions>& layer) {
  return layer.gradient;
}

at::Tensor update_of(torch::optim::Optimizer& optimizer, const Layer<LAMBOptions>& layer) {
  auto& state = state_for(optimizer, layer);
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

void move(torch::optim::Optimizer& optimizer, const Layer<LARSOptions>& layer, const at::Tensor& gradient,
          double weights, double slopes) {
  const double decay = layer.weight_decay(), momentum = layer.options->momentum();
  double rate = layer.options->lr();
  if (weights > 0 && slopes > 0)
    rate *= layer.options->trust_coefficient() * weights / (slopes + decay * weights);
  const at::Tensor direction = decay == 0 ? gradient : gradient.add(layer.parameter, decay);
  if (momentum == 0) {
    layer.parameter.add_(direction, -rate);
    return;
  }
  auto& state = state_for(optimizer, layer);
  if (!state.momentum_buffer().defined()) state.momentum_buffer(at::zeros_like(layer.parameter));
  layer.parameter.sub_(state.momentum_buffer().mul_(momentum).add_(direction, rate));
}

void move(torch::optim::Optimizer&, const Layer<LAMBOptions>& layer, const at::Tensor& update, double weights,
          double length) {
  const double ratio = weights > 0 && length > 0 ? weights / length : 1;
  layer.parameter.add_(update, -layer.options->lr() * ratio);
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

namespace train {

template <typename Options>
LayerwiseOptimizer<Options>::LayerwiseOptimizer(std::vector<torch::optim::OptimizerParamGroup> groups,
                                                const Options& defaults, SumOverRanks sum_over_ranks)
    : Optimizer(std::move(groups), std::make_unique<Options>(defaults)),
      sum_over_ranks_(std::move(sum_over_ranks)) {
  for (auto& group : param_groups()) require_valid(static_cast<const Options&>(group.options()));
}

template <typename Options>
LayerwiseOptimizer<Options>::LayerwiseOptimizer(std::vector<at::Tensor> parameters, const Options& options,
                                                SumOverRanks sum_over_ranks)
    : LayerwiseOptimizer({torch::optim::OptimizerParamGroup(std::move(parameters))}, options,
                         std::move(sum_over_ranks)) {}

template <typename Options>
at::Tensor LayerwiseOptimizer<Options>::step(LossClosure closure) {
  at::Tensor loss;
  if (closure) {
    const at::AutoGradMode with_graph(true);
    loss = closure();
  }
  const c10::NoGradGuard no_grad;
  const auto layers = layers_of<Options>(*this, sum_over_ranks_);
  std::vector<at::Tensor> parameters, updates(layers.size());
  std::vector<double> squares(2 * layers.size());  // of each parameter, of its update
  for (std::size_t i = 0; i < layers.size(); ++i) {
    parameters.push_back(layers[i].parameter);
    if (!layers[i].gradient.defined()) continue;
    updates[i] = update_of(*this, layers[i]);
    if (!layers[i].is_adapted) continue;
    squares[2 * i] = sum_of_squares({&layers[i].parameter, 1});
    squares[2 * i + 1] = sum_of_squares({&updates[i], 1});
  }
  if (sum_over_ranks_) sum_over_ranks_(parameters, squares);
  if (squares.size() != 2 * layers.size())
    throw InvalidArgumentError("a sum over ranks has changed the number of sums", {});
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (updates[i].defined())
      move(*this, layers[i], updates[i], std::sqrt(squares[2 * i]), std::sqrt(squares[2 * i + 1]));
  }
  return loss;
}

template <typename Options>
void LayerwiseOptimizer<Options>::save(torch::serialize::OutputArchive& archive) const {
  torch::optim::serialize<StateOf<Options>, Options>(archive, *this);
}

template <typename Options>
void LayerwiseOptimizer<Options>::load(torch::serialize::InputArchive& archive) {
  load_or_refuse(kName<Options>, [&] { torch::optim::serialize<StateOf<Options>, Options>(archive, *this); });
}

template class LayerwiseOptimizer<LARSOptions>;
template class LayerwiseOptimizer<LAMBOptions>;

}  // namespace train
}  // namespace kolo

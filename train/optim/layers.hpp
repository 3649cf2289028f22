// What optimizers that take norms of layers share.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <c10/core/GradMode.h>
#include <torch/optim/optimizer.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "kolo/error.hpp"
#include "kolo/train/optim.hpp"
#include "libtorch/optimizer_state.hpp"
#include "ranks/holders.hpp"

namespace kolo::train {

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
      if (!sum_over_ranks) require_undivided(parameter, name);
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
inline void require_positive_or_zero(const std::string& name, double value, double limit = INFINITY) {
  if (value >= 0 && value < limit) return;
  throw InvalidArgumentError(name + " is " + std::to_string(value) + ": out of its range", {});
}

/// Runs the closure, if there is one, with a graph.
inline at::Tensor loss_of(const torch::optim::Optimizer::LossClosure& closure) {
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

}  // namespace kolo::train

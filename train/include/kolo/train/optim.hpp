// Optimizers, learning rates, and changes to gradients before a step.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>
#include <torch/optim/adam.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <memory>
#include <tuple>
#include <vector>

#include "kolo/train/hooks.hpp"
#include "kolo/train/parallel_model.hpp"

namespace kolo {

/// Of SGD, Adam, AdamW, RMSprop, Adagrad, L-BFGS, LARS and LAMB; another type is "unknown", without traits. A
/// trait of one parameter group is one of the optimizer.
OptimizerTraits traits_of(const torch::optim::Optimizer& optimizer);

/// What an optimizer keeps for one of its parameters; null where there is nothing yet, to be filled by an
/// optimizer of the caller's own. Serves all versions of libtorch, which differ in their keys.
std::unique_ptr<torch::optim::OptimizerParamState>& state_of(torch::optim::Optimizer& optimizer,
                                                             const at::Tensor& parameter);

/// Scales all gradients so that their norm is at most `max_norm`, and returns the norm that they had. The
/// norm is the root of the sum of all squared elements (R. Pascanu, T. Mikolov, Y. Bengio: "On the Difficulty
/// of Training Recurrent Neural Networks", ICML 2013, algorithm 1). A parameter that is given several times
/// (tied weights) counts once; of sparse gradients the rows that there are count, each once; undefined ones
/// do not. Call it after backward(): averages are the same on all ranks, and so is the norm, bit for bit, on
/// machines with other vector units and numbers of threads too, as it is added up in float64 in a fixed
/// order; on devices by libtorch, the same bits on GPUs of one kind. An infinite or NaN norm leaves all
/// gradients as they are. Throws InvalidArgumentError unless
/// `max_norm` is positive and finite, for gradients of complex numbers, where
/// overlap_forward makes the steps, and for shards, stages of a pipeline and slices of layers, of which each
/// rank has others: names what to call for those.
double clip_gradients(const std::vector<at::Tensor>& parameters, double max_norm);

/// An average of parameters over time, which often generalizes better than the last step. Each update() makes
/// it decay * average + (1 - decay) * parameter (B. Polyak, A. Juditsky: "Acceleration of Stochastic
/// Approximation by Averaging", 1992; with this weight in D. Kingma, J. Ba: "Adam", section 7.2). Asks no
/// other rank: give it what the optimizer has, a rank's shards, its stage or its slices as well.
///
///     kolo::ExponentialMovingAverage average(model.parameters(), 0.999);
///     ...
///     optimizer.step();
///     average.update();
///     ...
///     const auto averaged = average.applied();   // the model computes with the averages while this lives
///
/// Buffers are not averaged. Not thread-safe.
class ExponentialMovingAverage {
 public:
  /// The averages in the parameters' place, until it dies. Then the parameters are as they were.
  class Applied {
   public:
    /// As applied().
    explicit Applied(ExponentialMovingAverage& average) : average_(average) { average_.apply(); }
    ~Applied() { average_.restore(); }
    Applied(const Applied&) = delete;
    Applied& operator=(const Applied&) = delete;

   private:
    ExponentialMovingAverage& average_;
  };

  /// Begins with the parameters' values, in float32 where those have 16 bits. Throws InvalidArgumentError
  /// unless `decay` is at least 0 and less than 1.
  ExponentialMovingAverage(std::vector<at::Tensor> parameters, double decay);

  /// After a step. Throws InvalidArgumentError while the averages are applied.
  void update();
  /// Throws InvalidArgumentError where they are.
  [[nodiscard]] Applied applied() { return Applied(*this); }

  /// Collective over the model's holders: the averages as a model, without what is not averaged, for
  /// Checkpoint::add("average", average.placed(model.placed())), which any number of ranks and any wrapper
  /// loads, and for gather_whole_parameters(). Throws InvalidArgumentError where one is of no parameter of
  /// the model.
  PlacedModel placed(const PlacedModel& model) const;

 private:
  void apply();
  void restore();

  std::vector<at::Tensor> parameters_, averages_;
  std::vector<at::Tensor> kept_;  ///< the parameters' values while averages are applied
  double decay_;
  bool is_applied_ = false;
};

/// Gives group i of parameters `rate` times factors[i]; without factors all groups get `rate`. For all
/// optimizers of libtorch and of kolo. Under overlap_forward:
///
///     model.change_optimizers([&](torch::optim::Optimizer& of_bucket) {
///       kolo::set_learning_rate(of_bucket, rate(step));
///     });
///
/// Throws InvalidArgumentError, before any rate changes, for a rate or factor that is negative or not finite,
/// and where there is not one factor for each group.
void set_learning_rate(torch::optim::Optimizer& optimizer, double rate,
                       const std::vector<double>& factors = {});

/// The momentum of SGD, RMSprop and LARS, the first of the betas of Adam, AdamW, LAMB and what is derived
/// from them, in all groups of parameters. Throws InvalidArgumentError, before any momentum changes, unless
/// `momentum` is between 0 and 1, both excluded, and for optimizers that have none, as Adagrad, or were made
/// without (SGD with momentum 0).
void set_momentum(torch::optim::Optimizer& optimizer, double momentum);

/// Adam that takes sparse gradients too, which libtorch's refuses. Where a gradient is dense it is
/// torch::optim::Adam, bit for bit. Of a parameter with a sparse gradient it touches the rows that have one
/// alone: those are updated, with their moments, by Adam's formula (D. P. Kingma, J. Ba: "Adam: A Method for
/// Stochastic Optimization", ICLR 2015, algorithm 1), with the bias corrections of the parameter's step; the
/// moments of other rows do not decay and those rows do not move. PyTorch and TensorFlow know it as
/// SparseAdam and LazyAdam. A step therefore costs what the rows cost and not what the table costs, but it is
/// not Adam with the same gradient made dense. Throws InvalidArgumentError, before any parameter moves, for a
/// sparse gradient of a parameter group with weight_decay or amsgrad. Options and saved state are those of
/// torch::optim::Adam. Not thread-safe.
class SparseAdam : public torch::optim::Adam {
 public:
  using torch::optim::Adam::Adam;
  /// Makes a step for each parameter that has a gradient. `closure`, if there is one, is called first, with
  /// gradients enabled, and its loss returned; else an undefined tensor.
  at::Tensor step(LossClosure closure = nullptr) override;
};

/// Options of a group of parameters, set by a chain of calls: `LARSOptions(4).weight_decay(5e-4)`.
struct LARSOptions : public torch::optim::OptimizerCloneableOptions<LARSOptions> {
  /// All other options have their defaults.
  LARSOptions(double lr) : lr_(lr) {}
  /// A factor on the rates of all layers, and the rate itself of what is exempt (exclude_vectors); 0 or more.
  TORCH_ARG(double, lr);
  /// How much of the last step is added to the next one; from 0 to below 1. 0 keeps no state.
  TORCH_ARG(double, momentum) = 0.9;
  /// The part of a layer that is added to its gradient; 0 or more.
  TORCH_ARG(double, weight_decay) = 0;
  /// How far a layer moves in a step, as a part of its norm, with `lr` = 1 and without momentum; 0 or more.
  TORCH_ARG(double, trust_coefficient) = 0.001;
  /// Parameters with one dimension, as biases and what scales and shifts a normalization, get SGD with
  /// momentum and neither a rate of their own nor weight decay. Off for layers that are flattened into
  /// shards.
  TORCH_ARG(bool, exclude_vectors) = true;

 public:
  /// Reads and writes the options, for save() and load().
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  /// The rate `lr`, by the names that libtorch's schedulers use.
  double get_lr() const override { return lr(); }
  void set_lr(double new_lr) override { lr(new_lr); }
};

namespace train {

/// What LARS and LAMB have in common. `Options`: LARSOptions or LAMBOptions.
template <typename Options>
class LayerwiseOptimizer : public torch::optim::Optimizer {
 public:
  /// Both throw InvalidArgumentError for options out of their range: negative or not finite, a momentum or
  /// betas of 1 or more.
  explicit LayerwiseOptimizer(std::vector<torch::optim::OptimizerParamGroup> groups,
                              const Options& defaults = Options(), SumOverRanks sum_over_ranks = {});
  explicit LayerwiseOptimizer(std::vector<at::Tensor> parameters, const Options& options = Options(),
                              SumOverRanks sum_over_ranks = {});

  /// Makes a step for each parameter that has a gradient. `closure`, if there is one, is called first, with
  /// gradients enabled, and its loss returned; else an undefined tensor. Norms are sums in float64 in a fixed
  /// order: the same bits on all ranks. Throws InvalidArgumentError, before any parameter moves, for sparse
  /// gradients, complex parameters, and shards or slices without sum_over_ranks; and what
  /// sum_over_ranks throws.
  at::Tensor step(LossClosure closure = nullptr) override;
  /// Writes and reads state, as by optimizers of libtorch, and options, for torch::save(), torch::load() and
  /// a Checkpoint. load() throws InvalidArgumentError for what another optimizer or another set of parameter
  /// groups has saved.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  SumOverRanks sum_over_ranks_;
};

}  // namespace train

/// LARS: SGD for large batches, in which each layer moves by a part of its norm. Y. You, I. Gitman, B.
/// Ginsburg: "Large Batch Training of Convolutional Networks", 2017, algorithm 1. Of a layer w with the
/// gradient g:
///
///     rate = lr trust_coefficient |w| / (|g| + weight_decay |w|)       lr, where |w| or |g| is zero
///     v = momentum v + rate (g + weight_decay w)
///     w = w - v
///
/// So a layer moves by a part of its norm however large its gradient is, and the rate of the batch no longer
/// depends on the layer with the smallest weights. Its state is v. Not thread-safe.
class LARS : public train::LayerwiseOptimizer<LARSOptions> {
 public:
  using LayerwiseOptimizer::LayerwiseOptimizer;
};

/// Options of a group of parameters, set by a chain of calls: `LAMBOptions(2e-3).weight_decay(0.01)`. The
/// betas are those of the paper's experiments.
struct LAMBOptions : public torch::optim::OptimizerCloneableOptions<LAMBOptions> {
  /// All other options have their defaults.
  LAMBOptions(double lr = 1e-3) : lr_(lr) {}
  /// beta1 of the first moment, beta2 of the second.
  using Betas = std::tuple<double, double>;
  /// The part of its norm by which a layer moves in a step; 0 or more.
  TORCH_ARG(double, lr) = 1e-3;
  /// How much of the moments stays in each step; each from 0 to below 1.
  TORCH_ARG(Betas, betas) = std::make_tuple(0.9, 0.999);
  /// Added to the root of the second moment, against divisions by zero; 0 or more.
  TORCH_ARG(double, eps) = 1e-6;
  /// The part of a layer that is added to its update, before the update's norm is taken; 0 or more.
  TORCH_ARG(double, weight_decay) = 0;
  /// Parameters with one dimension, as biases and what scales and shifts a normalization, get Adam and
  /// neither a rate of their own nor weight decay. Off for layers that are flattened into shards.
  TORCH_ARG(bool, exclude_vectors) = true;

 public:
  /// Reads and writes the options, for save() and load().
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  /// The rate `lr`, by the names that libtorch's schedulers use.
  double get_lr() const override { return lr(); }
  void set_lr(double new_lr) override { lr(new_lr); }
};

/// LAMB: Adam for large batches, in which each layer moves by a part of its norm. Y. You et al.: "Large Batch
/// Optimization for Deep Learning: Training BERT in 76 minutes", ICLR 2020, algorithm 2, with the norm itself
/// as its function phi. Of a layer w with the gradient g, in step t:
///
///     m = beta1 m + (1 - beta1) g
///     v = beta2 v + (1 - beta2) g^2
///     u = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay w
///     w = w - lr |w| / |u| u                                       lr u, where |w| or |u| is zero
///
/// So a layer moves by `lr` times its norm in a step. A step needs memory for u, as much as all gradients
/// take. Its state is m, v and t. Not thread-safe.
class LAMB : public train::LayerwiseOptimizer<LAMBOptions> {
 public:
  using LayerwiseOptimizer::LayerwiseOptimizer;
};

}  // namespace kolo

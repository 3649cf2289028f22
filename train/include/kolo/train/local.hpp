// Fewer synchronizations: models averaged every few steps, averages that arrive a step late, and averages
// over time.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>
#include <torch/serialize/archive.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "kolo/communicator.hpp"
#include "kolo/train/parallel_model.hpp"

namespace kolo {

/// An optimizer that moves the model by the averages, in place of taking an average as it is. The outer
/// gradient is the model after the last averaging, less the new average. SGD with momentum makes a step with
/// it: A. Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language Models", 2023,
/// algorithm 1; without `nesterov` J. Wang et al., "SlowMo", ICLR 2020, whose momentum is divided by the
/// inner learning rate.
struct OuterOptimizerOptions {
  double learning_rate = 0.7;  ///< above 0; 1 with a momentum of 0 takes the averages
  double momentum = 0.9;       ///< from 0 to below 1; above 0 it costs a copy of the parameters
  bool nesterov = true;        ///< Nesterov's momentum; only with a momentum above 0
};

/// Settings of a ModelAverager. The same on all ranks.
struct ModelAveragerOptions {
  std::uint64_t period = 16;  ///< steps between two averages: H; 1 or more
  /// Number of first steps in which the caller averages gradients. That is post-local SGD (T. Lin et al.,
  /// "Don't Use Large Mini-Batches, Use Local SGD", ICLR 2020, section 3), done by DistributedDataParallel
  /// with make_post_local_sgd_hook() for as many steps. The first average of models comes after the last of
  /// them.
  std::uint64_t start_after_steps = 0;
  std::optional<OuterOptimizerOptions> outer = {};  ///< none: an average is taken as it is
};

/// Averages the ranks' parameters, and buffers of floating-point numbers, every `period` steps. S. Stich,
/// "Local SGD Converges Fast and Communicates Little", ICLR 2019.
///
///     Net net;
///     kolo::ModelAverager averager(*net, communicator, {.period = 16});
///     torch::optim::SGD optimizer(net->parameters(), 0.1);
///     ...
///     loss(net(images), labels).backward();       // gradients of this rank
///     optimizer.step();
///     averager.step();
///
/// Frozen parameters and other buffers stay what they are, and the inner optimizer's state each rank's own.
/// Between two averages evaluate with AveragedModel. All ranks must make the same steps. Not
/// thread-safe.
class ModelAverager {
 public:
  /// Collective. Takes a communicator of its own by Communicator::split(); then copies rank 0's parameters
  /// and buffers to all ranks. All ranks throw, before that, InvalidArgumentError that names the rank whose
  /// options are out of their range or whose model has a tensor that is not dense, several devices or nothing
  /// to train, and MismatchError that names the rank whose options or model differ from most ranks'.
  ModelAverager(const torch::nn::Module& module, Communicator communicator,
                const ModelAveragerOptions& options = {});
  ~ModelAverager();
  ModelAverager(const ModelAverager&) = delete;
  ModelAverager& operator=(const ModelAverager&) = delete;

  /// Collective, after each step of the inner optimizer. Returns whether it averaged; then all ranks hold the
  /// same bits. Allocates nothing of the model's size. If the average is not finite, all ranks throw Error
  /// that names the first rank with such a number, and no rank's model changes. Throws InvalidArgumentError,
  /// and AbortedError on the other ranks, where a tensor has got another type or shape, or a frozen one wants
  /// gradients.
  bool step();

  /// False while the caller has to average gradients: in the first start_after_steps steps.
  bool is_local() const noexcept;
  /// Steps, averages (all_reduces), bytes of the models handed in, and the time that step() took (exposed).
  const CommunicationStatistics& total() const noexcept;

  /// For a Checkpoint: the number of steps, and the outer optimizer's model and momentum, which are the same
  /// on all ranks. The ranks' models and inner optimizers are not: Checkpoint::add_own(). load() throws
  /// InvalidArgumentError for the state of another model or outer optimizer.
  void save(torch::serialize::OutputArchive& archive) const;
  void load(torch::serialize::InputArchive& archive);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Averages gradients one step late, so that communication runs under the next step. The all_reduce of one
/// step's gradients runs while the next step computes, and the optimizer makes its step with the averages of
/// the step before: Y. Li et al., "Pipe-SGD: A Decentralized Pipelined SGD Framework for Distributed Deep Net
/// Training", NeurIPS 2018, with a pipeline of width 2. So a step takes about the longer one of computation
/// and communication, and gradients are those of parameters that are one step old.
///
///     Net net;
///     kolo::DelayedAverages averages(*net, communicator);
///     torch::optim::SGD optimizer(net->parameters(), 0.1);
///     for (const auto& [images, labels] : batches) {
///       optimizer.zero_grad();
///       loss(net(images), labels).backward();       // gradients of this rank
///       if (averages.step()) optimizer.step();
///     }
///     if (averages.finish()) optimizer.step();
///
/// Parameters stay equal on all ranks; buffers stay each rank's own. A parameter without a gradient counts as
/// zero. Costs two copies of the gradients. All ranks must make the same calls. Not thread-safe.
class DelayedAverages {
 public:
  /// Collective; throws as ModelAverager's, and InvalidArgumentError for tables with sparse gradients.
  DelayedAverages(const torch::nn::Module& module, Communicator communicator);
  /// Waits for the averages under way.
  ~DelayedAverages();
  DelayedAverages(const DelayedAverages&) = delete;
  DelayedAverages& operator=(const DelayedAverages&) = delete;

  /// After each backward(): waits for the averages of the step before, starts those of this step's gradients,
  /// and puts the former in place of the latter. Returns whether the optimizer has to make its step: not in
  /// the first one, and not where the averages are not finite, which all ranks find alike. Throws
  /// InvalidArgumentError, and AbortedError on the other ranks, for a sparse gradient or a tensor that has
  /// got another type or shape.
  bool step();
  /// After the last step: waits for its averages and makes them the gradients. Returns as step() does. What
  /// comes after it begins as the first step did.
  bool finish();

  /// How often the averages were not finite.
  std::uint64_t skipped() const noexcept;
  /// Of all steps that have been waited for.
  const CommunicationStatistics& total() const noexcept;

  /// For a Checkpoint, after step(): the averages that arrive in the next one. Waits for them. The same on
  /// all ranks, as are model and optimizer. load() throws InvalidArgumentError for the state of another
  /// model.
  void save(torch::serialize::OutputArchive& archive);
  void load(torch::serialize::InputArchive& archive);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// While one lives, the module holds the average over all ranks of its parameters and of its buffers of
/// floating-point numbers, the same bits on all ranks. Afterwards it holds this rank's own again:
///
///     {
///       const kolo::AveragedModel averaged(*net, communicator);
///       evaluate(net);
///     }
///
/// Costs two copies of them. The tensors must not change type or shape meanwhile. Not thread-safe.
class AveragedModel {
 public:
  /// Collective. All ranks throw as ModelAverager's constructor does, and then nothing has changed.
  AveragedModel(const torch::nn::Module& module, const Communicator& communicator);
  ~AveragedModel();
  AveragedModel(const AveragedModel&) = delete;
  AveragedModel& operator=(const AveragedModel&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kolo

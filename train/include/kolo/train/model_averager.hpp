// ModelAverager: local SGD. Each rank trains alone, and every H-th step the ranks' models are averaged.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>
#include <torch/serialize/archive.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "kolo/communicator.hpp"
#include "kolo/train/communication_statistics.hpp"

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
/// Between two averages evaluate with AveragedParameters. All ranks must make the same steps. Not
/// thread-safe.
class ModelAverager {
 public:
  /// Collective. Takes a communicator of its own by Communicator::split(); then copies rank 0's parameters
  /// and buffers to all ranks. All ranks throw, before that, InvalidArgumentError that names the rank whose
  /// options are out of their range or whose model has a tensor that is not dense and on the CPU or nothing
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

}  // namespace kolo

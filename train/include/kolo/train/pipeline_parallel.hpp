// PipelineParallel: a model whose layers are divided among the ranks, in stages that work on micro-batches.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/pimpl.h>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/train/parallel_model.hpp"
#include "kolo/train/stage_partition.hpp"

namespace kolo {

/// The order in which a rank runs forward and backward of m micro-batches in a pipeline of p ranks. A rank
/// idles for a share of its step, the bubble, where all stages take the same time and transfers none, and
/// rank i holds the activations of so many micro-batches:
///
///     gpipe                      (p - 1) / (m + p - 1)      m            Y. Huang et al., NeurIPS 2019
///     one_forward_one_backward   (p - 1) / (m + p - 1)      p - i        D. Narayanan et al., SOSP 2019
///     interleaved                (p - 1) / (v m + p - 1)    see below    D. Narayanan et al., SC 2021
///
/// gpipe: all forwards, then all backwards. one_forward_one_backward ("1F1B"; flushed, as in section 2.2 of
/// the third paper): a backward as soon as its gradient is there. interleaved: each rank has v parts of the
/// model, rank i the stages i, i + p, ..., which also means v times as many transfers; m is a multiple of p;
/// it holds 2 (p - i - 1) + (v - 1) p + 1 activations of a part, or all of them.
enum class PipelineSchedule {
  gpipe,                     ///< all forwards, then all backwards
  one_forward_one_backward,  ///< one forward and one backward in turns
  interleaved,               ///< the same, with several parts of the model on each rank
};
/// The names of the schedules: "gpipe", "1f1b", "interleaved", in this order.
std::vector<std::string> pipeline_schedule_names();
/// The schedule of that name. Throws InvalidArgumentError, with the names, where there is none.
PipelineSchedule parse_pipeline_schedule(const std::string& name);

/// Layers that run on one rank, one after the other stage's: what forward() computes of the tensor that the
/// stage before sent. A module without a function has a forward() from tensor to tensor.
struct PipelineStage {
  /// A stage that computes `forward_`, with the parameters of `module_`. Neither may be null.
  PipelineStage(std::shared_ptr<torch::nn::Module> module_,
                std::function<at::Tensor(const at::Tensor&)> forward_)
      : module(std::move(module_)), forward(std::move(forward_)) {}
  /// A stage that computes the model's own forward(). Null: no stage, which PipelineParallel refuses.
  template <std::derived_from<torch::nn::Module> Model>
  PipelineStage(std::shared_ptr<Model> model)  // NOLINT: implicit on purpose
      : module(model) {
    if (model) forward = [model](const at::Tensor& x) -> at::Tensor { return model->forward(x); };
  }
  /// As from the model that it holds.
  template <std::derived_from<torch::nn::Module> Model>
  PipelineStage(const torch::nn::ModuleHolder<Model>& model)  // NOLINT: implicit on purpose
      : PipelineStage(model.is_empty() ? nullptr : model.ptr()) {}

  std::shared_ptr<torch::nn::Module> module;  ///< its parameters are the stage's
  /// From the output of the stage before, on rank 0 the step's input, to this stage's output.
  std::function<at::Tensor(const at::Tensor&)> forward;
};

/// All layers, of which each rank keeps its stages.
struct PipelineModel {
  torch::nn::Sequential layers;  ///< alike on all ranks; a rank reads the values of its own stages only
  /// The first layer of each stage but the first, ascending; see partition(). Empty: as many layers in each
  /// stage, or one more in the first ones.
  std::vector<std::int64_t> borders = {};
};

/// One weight that the first stage and the last stage both use (an embedding, and the layer that maps back to
/// its vocabulary): the parameters' names in the PipelineModel, else in the two stages' modules.
struct PipelineTie {
  std::string first;  ///< the parameter's name in the first stage
  std::string last;   ///< the parameter's name in the last stage
};

/// The same on all ranks, but for `data`.
struct PipelineParallelOptions {
  /// The order of forwards and backwards, and with it bubble and memory.
  PipelineSchedule schedule = PipelineSchedule::one_forward_one_backward;
  /// Number of equal parts into which the batch of a step is cut; 1 or more, with `interleaved` a multiple of
  /// the ranks.
  int micro_batches = 1;
  /// Stages that each rank has; 1, or more with `interleaved`.
  int chunks = 1;
  /// Keep the input of a stage only, and compute the stage anew in backward: see kolo::recompute(), also for
  /// what the second forward sees (dropout drops the same elements).
  bool recompute = false;
  /// Weights that the first and the last stage share: they get the sum of both gradients.
  std::vector<PipelineTie> tie = {};
  /// The ranks that hold the same stages as this one, each in a pipeline of its own (data parallelism). They
  /// start from its rank 0's parameters and buffers, and average their gradients under the backward of the
  /// last micro-batch. A stage in shards has a `data` of its own instead. None: this rank's gradients are its
  /// own.
  Communicator data = {};
  /// The ranks that have one copy of the model between them, where stages have shards or slices of layers:
  /// Grid::replica(). Their construction of the pipeline is collective, too.
  Communicator holders = {};
};

/// What a rank did in its steps. Times are the steady clock's.
struct PipelineStatistics {
  std::uint64_t steps = 0;  ///< calls of step() that ended without an error
  /// Micro-batches (with several chunks: parts of the model times micro-batches) whose activations were there
  /// at once, at most: from the begin of forward to the end of backward.
  int most_held = 0;
  std::chrono::nanoseconds computing{0};  ///< forwards and backwards
  std::chrono::nanoseconds total{0};      ///< from the begin to the end of step(), without averages
  /// The share of `total` in which this rank did not compute.
  double bubble() const noexcept;
};

/// Trains a model whose layers are on different ranks:
///
///     kolo::PipelineParallel pipeline(kolo::PipelineModel{net, {3}}, loss, communicator,
///                                     {.micro_batches = 8});
///     torch::optim::SGD optimizer(pipeline.parameters(), 0.1);            // of this rank's stages
///     ...
///     optimizer.zero_grad();
///     pipeline.step(images, labels);
///     optimizer.step();
///
/// Rank r of the communicator has stage r; with c chunks the stages r, r + ranks, ... Outputs travel to the
/// next stage, and gradients back, while ranks compute: tensors of any shape and type that kolo sends, which
/// the ranks agree on in the first micro-batch, and again when the input's shape or the set of parameters
/// that require gradients changes. An output that requires no gradient gets none.
///
/// A step is that of one process with the whole batch, if `loss` is a mean over samples: gradients are means
/// over micro-batches. Layers that look at several samples at once see a micro-batch: batch normalization
/// normalizes by its statistics, and moves its running ones once for each. Layers with dropout draw random
/// numbers of their own rank. The first layer of a stage must not work in place, as what it gets is a leaf.
///
/// Calls are collective over the communicator. Not thread-safe. A step runs in the caller's thread, so
/// kolo::Autocast around it serves for forward; backward is computed as its forward was. When a stage throws,
/// the other ranks throw an AbortedError that names its rank and the reason; whatever fails, the object then
/// throws the same error at each further use. A stage may communicate over other communicators.
class PipelineParallel : public ParallelModel {
 public:
  /// Computes the mean loss of a micro-batch, a tensor of one element.
  using Loss = std::function<at::Tensor(const at::Tensor& output, const at::Tensor& target)>;

  /// Collective. `stages`: this rank's, one for each chunk. Only the last stage's rank needs a loss. Takes
  /// communicators of its own by Communicator::split(). Throws on all ranks: MismatchError, which names the
  /// rank and the first difference, where ranks have other options, models or borders; InvalidArgumentError
  /// where there are fewer layers than stages, borders that do not fit, an interleaved schedule whose
  /// micro-batches are not a multiple of the ranks, several chunks without one, a stage that is missing, or a
  /// tie of parameters that are not there, or differ in type or shape.
  PipelineParallel(std::vector<PipelineStage> stages, Loss loss, Communicator communicator,
                   PipelineParallelOptions options = {});
  PipelineParallel(PipelineModel model, Loss loss, Communicator communicator,
                   PipelineParallelOptions options = {});
  ~PipelineParallel() override;

  /// Collective: forward and backward of a batch, whose first dimension is cut into micro-batches. `input` is
  /// read on rank 0, `target` on the last rank; others may pass undefined tensors. Adds to gradients as
  /// backward() does. Returns the mean loss on the last rank, and nothing on others. Throws
  /// InvalidArgumentError, on all ranks and before anything is computed for good, where a tensor is missing
  /// or cannot be cut.
  std::optional<double> step(const at::Tensor& input, const at::Tensor& target);
  /// Collective: the loss of the last step on all ranks; with `data` the mean over the pipelines.
  double mean_loss();
  /// Collective: forward only, without a graph, of one sample or more, in as many micro-batches as step() has
  /// or, of fewer samples, in micro-batches of one; their lengths differ by one at most. Returns the output
  /// on the last rank, and an undefined tensor on others. Evaluation mode is the caller's: see stages().
  at::Tensor forward(const at::Tensor& input);

  /// The parameters of this rank's stages, each once, for the optimizer. Those of a PipelineModel keep the
  /// names that they have in the whole model.
  std::vector<at::Tensor> parameters() const;
  /// This rank's parameters and buffers, of stages in ShardedDataParallel its shards: for norms, sums over
  /// layers and checkpoints. Where two stages have one name, all names begin with the number of the stage
  /// ("3.weight"). Throws InvalidArgumentError where stages have slices of layers or shards, and `holders` is
  /// not set.
  const PlacedModel& placed() const override;
  /// This rank's stages, in the order of the model; one for each chunk.
  const std::vector<PipelineStage>& stages() const noexcept;
  /// Whether this rank has the first stage, which reads the input.
  bool is_first() const noexcept;
  /// Whether this rank has the last stage, which has the loss.
  bool is_last() const noexcept;

  /// What this rank did in the last step.
  const PipelineStatistics& last_step() const noexcept;
  /// What this rank did in all steps; most_held is the greatest.
  const PipelineStatistics& statistics() const noexcept;
  /// What averages over `data` cost; a stage that is wrapped counts its own.
  const CommunicationStatistics& total() const noexcept override;
  /// Throws InvalidArgumentError for true: step() has all micro-batches.
  void set_local(bool is_local) override;
  /// Scale the loss in the loss function. Throws InvalidArgumentError as ParallelModel has it.
  void set_loss_scale(float scale) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Runs the layers one after the other on this rank alone, forward and backward, `repeats` times after two
/// runs that do not count; times are medians. `input` is a batch, or a micro-batch, as the pipeline gets it.
/// Leaves parameters and their gradients as they are, and buffers too. The layers' names are those of the
/// Sequential. Throws InvalidArgumentError where there are no layers or no repeats.
std::vector<LayerCost> measure_layers(torch::nn::Sequential layers, const at::Tensor& input,
                                      int repeats = 10);

}  // namespace kolo

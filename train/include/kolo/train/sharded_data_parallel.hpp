// ShardedDataParallel: data parallelism in which each rank keeps a part of what DistributedDataParallel keeps
// whole.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/train/optim.hpp"
#include "kolo/train/parallel_model.hpp"

namespace kolo {

/// What is divided among the N ranks. The kinds are the stages of ZeRO (S. Rajbhandari et al.: "ZeRO: Memory
/// Optimizations Toward Training Trillion Parameter Models", SC 2020, section 5: stages 1, 2 and 3). For P
/// parameters of float32 and Adam a rank holds so many bytes, and sends so many times
/// DistributedDataParallel's:
///
///     optimizer_state   8P + 8P/N           1.0
///     gradients         4P + 12P/N          1.0
///     parameters        16P/N + two units   1.5, less the gather that the last unit of forward saves
///
/// While backward runs, gradients of up to three units come on top of the last two. Frozen parameters, F of
/// them, take 4F bytes, with `parameters` 4F/N: no gradients, no state, and no step gathers them anew.
enum class Shard {
  optimizer_state,  ///< the state of the optimizer (stage 1)
  gradients,        ///< gradients too (stage 2)
  parameters,       ///< parameters too (stage 3)
};
/// The names of the kinds: "optimizer_state", "gradients", "parameters", in this order.
std::vector<std::string> shard_names();
/// The kind of that name. Throws InvalidArgumentError, with the names, where there is none.
Shard parse_shard(const std::string& name);

/// Settings of ShardedDataParallel. The same on all ranks.
struct ShardedDataParallelOptions {
  Shard shard = Shard::parameters;  ///< what is divided among the ranks
  /// Submodules, by name, whose parameters travel together, and with Shard::parameters are there together.
  /// Empty: the model's children; in place of a Sequential or ModuleList, its children. The model's other
  /// parameters, and those that several units use, are there from their first use to the end of backward().
  std::vector<std::string> units = {};
  /// With BFloat16 (or Half) the module's parameters are of that type, and are gathered with half the bytes;
  /// shards, averages of gradients and the optimizer stay float32. See P. Micikevicius et al.: "Mixed
  /// Precision Training", ICLR 2018, section 3.1. Trained parameters are float32 or of that type; frozen ones
  /// of float32 are rounded to it. Inputs of operations must have that type too, or be in an Autocast. A rank
  /// then holds 6P + 12P/N, 2P + 16P/N, or 16P/N + two units of half the size.
  std::optional<at::ScalarType> gather_type = {};
  /// Averages gradients of float32 in place of a reduce_scatter: one that can_scatter(). Over `data` averages
  /// travel as they are.
  std::shared_ptr<GradientHook> hook = {};
  /// Copy rank 0's buffers (of batch normalization, say) to all ranks of the communicator, those of `data`
  /// not among them, at the end of each backward().
  bool broadcast_buffers = true;
  /// The ranks that have one copy of the model between them, where that is more than the communicator of the
  /// shards: Grid::replica(). Their construction of the wrapper is collective, too.
  Communicator holders = {};
  /// The ranks that hold the same shards as this one, each in a group of its own (hybrid sharding):
  /// Grid::data(). All start from their rank 0's values, and average their gradients under backward(), each
  /// its own shards. Not the same on all ranks.
  Communicator data = {};
};

/// What ShardedDataParallel<Model> does whatever the model's type.
class ShardedDataParallelBase : public ParallelModel {
 public:
  /// While one lives, all parameters are whole on all ranks, to be saved, loaded, or read through pointers.
  class Whole {
   public:
    /// Collective: gathers all parameters.
    explicit Whole(ShardedDataParallelBase& parallel);
    /// Takes over what has been written to the parameters; must then be the same on all ranks. An error (a
    /// parameter of another type, say) comes with the next forward(). With `gather_type` a shard's element
    /// that was not written keeps its float32.
    ~Whole();
    Whole(const Whole&) = delete;
    Whole& operator=(const Whole&) = delete;

   private:
    ShardedDataParallelBase& parallel_;
  };

  /// Collective. Takes communicators of its own by Communicator::split(). Throws, on all ranks,
  /// MismatchError that names the rank and the first difference when models or options are not alike;
  /// InvalidArgumentError that names the rank when there is nothing to train, a parameter is not dense
  /// or has sparse gradients, tensors are on several devices, `units` names no submodule or one within
  /// another, another object averages the gradient of a parameter, or `gather_type` or the hook does not fit.
  ShardedDataParallelBase(std::shared_ptr<torch::nn::Module> module, Communicator communicator,
                          ShardedDataParallelOptions options);
  /// With Shard::parameters the model's parameters are NaN from then on, unless a Whole lives.
  ~ShardedDataParallelBase() override;

  /// For a caller that calls the model itself, not forward(): one comes before the model's forward(), the
  /// other after it. Collective; throw the error of a step that has failed.
  void begin_forward();
  void end_forward();

  /// For the optimizer: this rank's part of each parameter, on each rank as many, in the same order:
  /// [n] or [n, 1] elements, perhaps none, as placed() tells. After backward() they have the averages as
  /// gradients, and the optimizer's step moves them. An optimizer whose update of an element depends on that
  /// element alone (SGD, Adam, AdamW, RMSprop, Adagrad) moves parameters as it does unsharded; LARS and LAMB
  /// do with kolo::sum_over_ranks().
  std::vector<at::Tensor> parameters() const;
  /// This rank's shards, in the order of parameters(), then what each rank has whole: for norms, sums over
  /// layers (LARS, LAMB) and checkpoints. A shard of a vector has one dimension and one of a matrix two, so
  /// `exclude_vectors` means what it does unsharded. Throws InvalidArgumentError where the shards are of
  /// slices of layers or of stages, and `holders` is not set.
  const PlacedModel& placed() const override;

  /// Collective: all parameters are whole while what it returns lives.
  [[nodiscard]] Whole whole() { return Whole(*this); }

  void set_local(bool is_local) override;
  void set_loss_scale(float scale) override;
  /// What forward and backward waited for is exposed, whether it was gathers of parameters or averages of
  /// gradients. Counts units that were averaged as all_reduces; `bytes` are those of gradients.
  const CommunicationStatistics& total() const noexcept override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Wraps a model of which each rank keeps a part, and which computes as the whole model does:
///
///     kolo::ShardedDataParallel model(Net(), communicator, {.shard = kolo::Shard::parameters});
///     torch::optim::Adam optimizer(model.parameters(), 1e-3);            // this rank's shards
///     ...
///     optimizer.zero_grad();
///     loss(model(images), labels).backward();
///     optimizer.step();
///
/// At the start every rank gets rank 0's parameters and buffers. The first operation of libtorch on a
/// parameter of a unit gathers the unit, in forward, in backward, and in parts that backward computes anew;
/// the unit that was used next the last time is gathered meanwhile. With Shard::parameters a unit's memory is
/// given back as soon as another unit is used. Gradients are averaged unit by unit during backward, each to
/// the rank that owns them.
///
/// Several backward() calls in a row add up their averages in the shards' gradients, until zero_grad(). A
/// parameter without a gradient counts as zero, unless no rank has one: then its shards have none. Memory
/// read or written through a pointer (data_ptr(), torch::save(), torch::load()) wants a Whole; Checkpoint and
/// broadcast() take one themselves. A parameter that was replaced or written to without, or was frozen when
/// this object was made and wants a gradient now, is an error of the next forward(). One that is frozen later
/// counts as one without a gradient. All ranks must run the same model in the same order; forward() is
/// collective, in evaluation too. When a rank or the network fails, forward() or backward() throws kolo's
/// error, and so does each later call. Not thread-safe.
template <std::derived_from<torch::nn::Module> Model>
class ShardedDataParallel : public ShardedDataParallelBase {
 public:
  /// Collective. Shares the model; throws as ShardedDataParallelBase does.
  ShardedDataParallel(std::shared_ptr<Model> model, Communicator communicator,
                      ShardedDataParallelOptions options = {})
      : ShardedDataParallelBase(model, std::move(communicator), std::move(options)),
        model_(std::move(model)) {}
  ShardedDataParallel(const torch::nn::ModuleHolder<Model>& model, Communicator communicator,
                      ShardedDataParallelOptions options = {})
      : ShardedDataParallel(model.ptr(), std::move(communicator), std::move(options)) {}

  /// Collective: calls the model's forward() with these arguments, and returns what it returns.
  template <typename... Arguments>
  auto forward(Arguments&&... arguments) {
    begin_forward();
    auto outputs = model_->forward(std::forward<Arguments>(arguments)...);
    end_forward();
    return outputs;
  }
  /// As forward().
  template <typename... Arguments>
  auto operator()(Arguments&&... arguments) {
    return forward(std::forward<Arguments>(arguments)...);
  }

  /// The model itself; its parameters may be away.
  Model& model() { return *model_; }
  Model* operator->() { return model_.get(); }

 private:
  std::shared_ptr<Model> model_;
};

}  // namespace kolo

// ShardedOptimizerState: the state of an optimizer of shards, for a checkpoint that any number of ranks can
// load.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <map>
#include <string>
#include <vector>

#include "kolo/train/sharded_data_parallel.hpp"

namespace kolo {

/// Puts the ranks' parts of the state together before a checkpoint is saved, and takes this rank's part when
/// it is loaded:
///
///     kolo::ShardedOptimizerState state(model, optimizer);
///     kolo::Checkpoint checkpoint;
///     checkpoint.add("model", model.model()).add("optimizer", state);
///     ...
///     state.gather();
///     checkpoint.save("run.pt", step, communicator);          // or step = checkpoint.resume(...)
///
/// Serves optimizers that keep for a parameter tensors of its size, and numbers that are the same on all
/// ranks: SGD, Adam, AdamW, RMSprop, Adagrad, LARS, LAMB. The whole state is in memory meanwhile. Not
/// thread-safe; the model and the optimizer, which must be of model.parameters(), must outlive it.
class ShardedOptimizerState {
 public:
  /// Throws InvalidArgumentError where the optimizer has other parameters than the model's shards.
  ShardedOptimizerState(ShardedDataParallelBase& model, torch::optim::Optimizer& optimizer);

  /// Collective, before save(): all ranks have the whole state from then on.
  void gather();
  /// Not collective: writes what gather() has put together, the same on all ranks.
  void save(torch::serialize::OutputArchive& archive) const;
  /// Not collective: takes this rank's part, of a state that any number of ranks has saved. Throws
  /// InvalidArgumentError for the state of another model.
  void load(torch::serialize::InputArchive& archive);

 private:
  using Values = std::map<std::string, c10::IValue>;
  ShardedDataParallelBase& model_;
  torch::optim::Optimizer& optimizer_;
  std::vector<ShardedDataParallelBase::ShardedParameter> parameters_;
  std::vector<Values> whole_;  ///< of each parameter; empty where the optimizer has made no step
};

}  // namespace kolo

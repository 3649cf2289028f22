// Way: how a job of training divides a model and its samples among ranks.
#pragma once

#include <cstddef>
#include <ranges>
#include <string>
#include <vector>

#include "plan/training/group_prices.hpp"
#include "plan/training/profile.hpp"

namespace kolo::plan {

/// What the replicas of a model divide among themselves, as kolo::Shard.
enum class Divided { nothing, optimizer_state, gradients, parameters };

/// data x tensor x stages ranks. Ranks that share a layer follow one another, then replicas of a stage, then
/// stages. A value.
struct Way {
  int data = 1;    ///< replicas of the model, which average their gradients
  int tensor = 1;  ///< ranks that share each layer that can be divided
  int stages = 1;  ///< of the pipeline
  Divided divided = Divided::nothing;
  int micro_batches = 1;                    ///< into which a replica divides its samples of a step
  std::vector<std::size_t> first_layers{};  ///< of each stage, the first one is 0

  int ranks() const { return data * tensor * stages; }
  int rank_of(int replica, int part, int stage) const { return (stage * data + replica) * tensor + part; }
  /// Of a stage: its first layer, and the one after its last.
  std::size_t begin_of(int stage) const { return first_layers[static_cast<std::size_t>(stage)]; }
  std::size_t end_of(int stage, std::size_t layers) const {
    return stage + 1 < stages ? begin_of(stage + 1) : layers;
  }
  /// The indices of a stage's layers.
  auto layers_of(int stage, std::size_t layers) const {
    return std::views::iota(begin_of(stage), end_of(stage, layers));
  }

  /// Ranks that average the gradients of one part of one stage; those that share the layers of one replica's
  /// stage; those that send and receive between two stages.
  std::vector<std::vector<int>> data_groups() const;
  std::vector<std::vector<int>> tensor_groups() const;
  std::vector<std::vector<int>> pairs_after(int stage) const;
};

/// "DistributedDataParallel", "ShardedDataParallel, gradients", "data 2 x tensor 2 x pipeline 2".
std::string name_of(const Way& way);

/// All ways to use exactly this many ranks, without borders of stages: those that divide layers only where
/// some layer can be divided, and no more stages than there are layers.
std::vector<Way> ways_of(const ModelProfile& profile, int ranks);

}  // namespace kolo::plan

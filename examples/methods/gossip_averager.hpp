// GossipAverager: each rank averages its model with one other rank's, another one in each round.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>
#include <torch/serialize/archive.h>

#include <cstdint>
#include <memory>

#include "kolo/communicator.hpp"
#include "kolo/train/parallel_model.hpp"

namespace kolo::methods {

/// Settings of a GossipAverager. The same on all ranks.
struct GossipAveragerOptions {
  std::uint64_t period = 1;  ///< steps between two rounds; 1 or more
};

/// Decentralized SGD: each rank averages its model with one other rank's, another one in each round. The
/// graph is the one-peer exponential one: in round k rank r of N sends its model to rank r + 2^(k mod
/// ceil(log2 N)), modulo N, and takes the mean of its own and the one that it receives (M. Assran et al.,
/// "Stochastic Gradient Push for Distributed Deep Learning", ICML 2019; B. Ying et al., "Exponential Graph is
/// Provably Efficient for Decentralized Deep Training", NeurIPS 2021, section 4). Each rank sends once and
/// receives once, so any N keeps the mean of all models, and no rank waits for more than one other. If N is a
/// power of two, log2 N rounds average exactly.
///
/// Used as ModelAverager is. The ranks' models stay different: evaluate with AveragedModel, and end
/// training with average_parameters(). All ranks must make the same steps. Not thread-safe.
class GossipAverager {
 public:
  /// Collective; throws as ModelAverager's.
  GossipAverager(const torch::nn::Module& module, Communicator communicator,
                 const GossipAveragerOptions& options = {});
  ~GossipAverager();
  GossipAverager(const GossipAverager&) = delete;
  GossipAverager& operator=(const GossipAverager&) = delete;

  /// After each step of the optimizer, on all ranks. Returns whether it averaged: parameters, and buffers of
  /// floating-point numbers. If this rank's model is not finite, or a tensor has got another type or shape,
  /// all ranks get an AbortedError that names this rank: here, or in the round that meets it.
  bool step();

  /// The rank to which the next round sends; this rank if it is alone.
  int next_peer() const noexcept;
  /// Steps, rounds (all_reduces), bytes of the models sent, and the time that step() took (exposed).
  const CommunicationStatistics& total() const noexcept;

  /// For a Checkpoint: the number of steps, the same on all ranks. Models and optimizers are each rank's own:
  /// Checkpoint::add_own().
  void save(torch::serialize::OutputArchive& archive) const;
  void load(torch::serialize::InputArchive& archive);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kolo::methods

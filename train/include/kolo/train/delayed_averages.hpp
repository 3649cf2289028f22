// DelayedAverages: the gradients' averages arrive one step late, so that a whole step hides communication.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>
#include <torch/serialize/archive.h>

#include <cstdint>
#include <memory>

#include "kolo/communicator.hpp"
#include "kolo/train/communication_statistics.hpp"

namespace kolo {

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

}  // namespace kolo

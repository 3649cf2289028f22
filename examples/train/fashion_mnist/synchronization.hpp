// How the ranks' models stay together: what --synchronization chooses.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "fashion_mnist/options.hpp"
#include "kolo/communicator.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/local.hpp"
#include "methods/gossip_averager.hpp"

namespace fashion_mnist {

/// What --synchronization changes of how DistributedDataParallel averages gradients: not at all with late,
/// gossip and local; with post-local in the first `averaged_steps` steps. Throws std::invalid_argument for
/// options that do not go together.
void set_synchronization(const Options& options, std::uint64_t averaged_steps,
                         kolo::DistributedDataParallelOptions& parallel);

class Synchronization {
 public:
  using OptimizerStep = std::function<void()>;

  /// Collective. All must outlive it.
  Synchronization(const Options& options, std::uint64_t averaged_steps,
                  const kolo::DistributedDataParallelBase& model, const torch::nn::Module& net,
                  kolo::Communicator& communicator);

  /// After each backward(): the optimizer's step, and what the ranks exchange before or after it. After the
  /// last step the ranks' models are equal.
  void step(const OptimizerStep& optimizer_step, bool is_last);
  /// For an evaluation: while it lives the model is the average over all ranks. Null if models are equal.
  std::unique_ptr<kolo::AveragedModel> averaged() const;

  /// Whether bytes move while no step() is under way.
  bool sends_between_steps() const { return late_.has_value(); }
  kolo::CommunicationStatistics total() const;

 private:
  bool averages_gradients() const;

  const kolo::DistributedDataParallelBase& model_;
  const torch::nn::Module& net_;
  kolo::Communicator& communicator_;
  std::optional<kolo::DelayedAverages> late_;
  std::optional<kolo::methods::GossipAverager> gossip_;
  std::optional<kolo::ModelAverager> local_;
  kolo::CommunicationStatistics of_gradients_;
};

}  // namespace fashion_mnist

// ReplicaAverages: gradients of a stage, averaged over the ranks that hold the same stage.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>

#include <memory>
#include <vector>

#include "gradients/bucket.hpp"
#include "kolo/communicator.hpp"
#include "ranks/model.hpp"

namespace kolo::train {

/// Not thread-safe.
class ReplicaAverages {
 public:
  /// Collective over `communicator`: all start from its rank 0's parameters and buffers. Throws MismatchError
  /// on all of its ranks where the stages are not alike; InvalidArgumentError for a parameter that is not a
  /// dense CPU tensor.
  ReplicaAverages(const std::vector<std::shared_ptr<torch::nn::Module>>& modules, Communicator communicator);

  /// Collective: the gradients' averages take their place. What has no gradient counts as zero.
  void average();
  Communicator& communicator() noexcept { return communicator_; }

 private:
  Communicator communicator_;
  NamedTensors trainable_;
  std::vector<Bucket> buckets_;
};

}  // namespace kolo::train

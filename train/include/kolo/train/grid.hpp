// Grid: the ranks of a job as data, pipeline and tensor groups.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "kolo/communicator.hpp"

namespace kolo {

/// Into how many parts a job is divided each way. Their product is the number of ranks.
struct GridOptions {
  int data = 1;      ///< replicas of the model, each with its own samples
  int pipeline = 1;  ///< stages of each replica
  int tensor = 1;    ///< ranks that divide each layer of a stage
};

/// The groups of a hybrid of data, pipeline and tensor parallelism (D. Narayanan et al.: "Efficient
/// Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC 2021, section 3). Rank
///
///     (stage * data + replica) * tensor + slice
///
/// has these coordinates: the ranks of a tensor group, which communicate most, are neighbours and share a
/// host where `kolo run` fills hosts in order; the stages, which communicate least, are farthest apart.
///
///     kolo::Grid grid(kolo::Communicator::create(), {.data = 2, .pipeline = 2, .tensor = 2});
///     // Layers of this rank's stage take grid.tensor(), the pipeline grid.pipeline(); grid.data() averages.
///
/// Shards are a data group whose ranks divide what they would hold alike: give grid.data() to
/// ShardedDataParallel in place of DistributedDataParallel. The docs of each of these classes say what it
/// makes of its group. Thread-safe as Communicator is.
class Grid {
 public:
  /// Collective. Throws, on all ranks, MismatchError that names the rank whose options differ from those of
  /// most ranks, and InvalidArgument where a part is less than 1 or the product is not the number of ranks.
  Grid(Communicator communicator, const GridOptions& options);

  Communicator& all() noexcept { return all_; }
  /// The ranks that hold the same part of the model: they average gradients.
  Communicator& data() noexcept { return data_; }
  /// One rank of each stage: rank() is the stage.
  Communicator& pipeline() noexcept { return pipeline_; }
  /// The ranks that divide the layers of one stage.
  Communicator& tensor() noexcept { return tensor_; }
  /// The ranks of one replica: all its stages, and all their slices.
  Communicator& replica() noexcept { return replica_; }

  /// Collective over the replica: scales this rank's gradients so that the norm of the gradients of the whole
  /// model is at most `max_norm`, and returns the norm that they had, with the same bits on all ranks of the
  /// replica. `is_replicated` says of a parameter that all ranks of the tensor group hold it alike, so that
  /// it counts once; without it none is. A parameter that two stages hold alike (tied layers) must be given
  /// on one of them only. After the averages of backward(), which all replicas hold alike. Throws
  /// InvalidArgument unless `max_norm` is positive and finite. An infinite or NaN norm leaves all gradients
  /// as they are.
  double clip_gradients(const std::vector<at::Tensor>& parameters, double max_norm,
                        const std::function<bool(const at::Tensor&)>& is_replicated = {});

 private:
  Communicator all_, data_, pipeline_, tensor_, replica_;
};

}  // namespace kolo

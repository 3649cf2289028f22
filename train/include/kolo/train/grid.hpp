// Grid: the ranks of a job as data, sharded, pipeline and tensor groups.
#pragma once

#include "kolo/communicator.hpp"

namespace kolo {

/// Into how many parts a job is divided in each way. Their product is the number of ranks.
struct GridOptions {
  int data = 1;      ///< replicas of the model, each with samples of its own
  int sharded = 1;   ///< ranks that divide what a replica keeps, each with samples of its own
  int pipeline = 1;  ///< stages of each replica
  int tensor = 1;    ///< ranks that divide each layer of a stage
};

/// The groups of a hybrid of data, sharded, pipeline and tensor parallelism. The layout is that of
/// Megatron-LM (D. Narayanan et al.: "Efficient Large-Scale Language Model Training on GPU Clusters Using
/// Megatron-LM", SC 2021, section 3). Rank
///
///     ((stage * data + replica) * sharded + shard) * tensor + slice
///
/// has these coordinates. The ranks of a tensor group communicate most and are neighbours, so that they share
/// a host where `kolo run` fills hosts in order; the stages communicate least and are farthest apart.
///
///     kolo::Grid grid(kolo::Communicator::create(), {.data = 2, .pipeline = 2, .tensor = 2});
///
/// | group        | goes to                                                                       |
/// | ------------ | ----------------------------------------------------------------------------- |
/// | `tensor()`   | ColumnParallelLinear and the other modules that divide a layer                |
/// | `pipeline()` | PipelineParallel                                                              |
/// | `data()`     | DistributedDataParallel, PipelineParallelOptions::data, average_gradients()   |
/// | `sharded()`  | ShardedDataParallel, around what a rank has of the model                      |
///
/// Thread-safe as Communicator is.
class Grid {
 public:
  /// Collective. Throws, on all ranks, MismatchError that names the rank whose options differ from those of
  /// most ranks, and InvalidArgumentError where a part is less than 1 or the product is not the number of
  /// ranks.
  Grid(Communicator communicator, const GridOptions& options);

  /// All ranks of the job: the communicator that it was made with.
  Communicator& all() noexcept { return all_; }
  /// The ranks that hold the same part of the model.
  Communicator& data() noexcept { return data_; }
  /// The ranks that divide what one rank would hold alike.
  Communicator& sharded() noexcept { return sharded_; }
  /// One rank of each stage; rank() is the stage.
  Communicator& pipeline() noexcept { return pipeline_; }
  /// The ranks that divide the layers of one stage.
  Communicator& tensor() noexcept { return tensor_; }
  /// The ranks of one replica, its stages, shards and slices: the option `holders` of wrappers.
  Communicator& replica() noexcept { return replica_; }
  /// The batch is cut into data() * sharded() parts; this rank's stage works on that of this number.
  int batch_part() const;

 private:
  Communicator all_, data_, sharded_, pipeline_, tensor_, replica_;
};

}  // namespace kolo

// StageAverages: gradients of a pipeline's stages, averaged over the ranks that hold the same stages.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <memory>
#include <string>
#include <vector>

#include "gradients/reducer.hpp"
#include "kolo/communicator.hpp"
#include "kolo/train/pipeline_parallel.hpp"

namespace kolo::train {

/// Backwards of all micro-batches of a chunk but the last one only accumulate; averages start within the last
/// one. A stage that is wrapped (in shards, say) averages its gradients itself, and is told of that too. Not
/// thread-safe.
class StageAverages {
 public:
  /// Collective over `data`, which may be not valid: all start from its rank 0's parameters and buffers.
  /// Throws MismatchError on all of its ranks where the stages are not alike; InvalidArgumentError for a
  /// parameter that is not a dense CPU tensor.
  StageAverages(const std::vector<PipelineStage>& stages, Communicator data);

  /// A step begins.
  void begin();
  /// Of the next backward: whether the chunk has others after it.
  void set_local(int chunk, bool is_local);
  /// Collective: waits for the averages, which take the gradients' place.
  void finish();
  /// The step ends without averages, as no backward has begun.
  void end() noexcept;
  /// After a failure of the pipeline.
  void leave(const std::string& reason) noexcept;

  Communicator& communicator() noexcept { return data_; }
  /// Of the averages over `data`.
  const CommunicationStatistics& total();

 private:
  std::vector<PipelineStage> stages_;
  Communicator data_;
  std::unique_ptr<Reducer> reducer_;              ///< null where it has nothing to average
  std::vector<std::vector<Reducer*>> of_chunks_;  ///< during a step: those that average a chunk's gradients
  std::vector<Reducer*> all_;                     ///< during a step: each once
  CommunicationStatistics none_;
};

}  // namespace kolo::train

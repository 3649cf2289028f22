// StageGradients: gradients of a pipeline's stages, averaged over the ranks that hold the same stages, and of
// weights that the first and the last stage both use.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "gradients/reducer.hpp"
#include "kolo/communicator.hpp"
#include "kolo/train/pipeline_parallel.hpp"

namespace kolo::train {

/// A weight that the first and the last stage both use. A rank that has neither stage does nothing. One that
/// has both may hold a weight twice, or once.
struct TiedPair {
  at::Tensor first;  ///< undefined where this rank has not the first stage; `last` likewise
  at::Tensor last;
};

/// Backwards of all micro-batches of a chunk but the last one only accumulate; averages start within the last
/// one. A stage that is wrapped (in shards, say) averages its gradients itself, and is told of that too. Not
/// thread-safe.
class StageGradients {
 public:
  /// Collective over `data`, which may be not valid: all start from its rank 0's parameters and buffers.
  /// Throws MismatchError on all of its ranks where the stages are not alike; InvalidArgumentError for a
  /// parameter that is not a dense tensor.
  StageGradients(const std::vector<PipelineStage>& stages, Communicator data);
  /// `ends`: the ranks of the first and the last stage, in this order; not valid where they are one rank, and
  /// on others. The last stage's weights get the first one's values.
  void tie(std::vector<TiedPair> pairs, const Communicator& ends);

  /// A step begins. What gradients of tied weights hold already has been summed.
  void begin();
  /// Of the next backward: whether the chunk has others after it.
  void set_local(int chunk, bool is_local);
  /// Collective: waits for the averages, which take the gradients' place.
  void finish();
  /// Adds up what backward has left of tied weights on the two stages.
  void sum_tied();
  /// The step ends without averages, as no backward has begun: what begin() has taken away comes back.
  void end();
  /// After a failure of the pipeline. The same.
  void leave(const std::string& reason);

  const std::vector<TiedPair>& tied() const noexcept { return tied_; }
  Communicator& communicator() noexcept { return data_; }
  /// Of the averages over `data`.
  const CommunicationStatistics& total();

 private:
  void release() noexcept;
  void restore_tied();

  std::vector<PipelineStage> stages_;
  Communicator data_;
  std::unique_ptr<Reducer> reducer_;              ///< null where it has nothing to average
  std::vector<std::vector<Reducer*>> of_chunks_;  ///< during a step: those that average a chunk's gradients
  std::vector<Reducer*> all_;                     ///< during a step: each once
  CommunicationStatistics none_;

  std::vector<TiedPair> tied_;
  Communicator ends_;
  std::vector<at::Tensor> own_;      ///< this rank's tied weights, of which gradients are sums
  std::vector<at::Tensor> earlier_;  ///< their gradients before the step, perhaps undefined
};

}  // namespace kolo::train

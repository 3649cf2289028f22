// PipelineStep: runs the actions of a schedule on one rank.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/train/pipeline_parallel.hpp"
#include "kolo/train/tensor.hpp"
#include "pipeline/border_exchange.hpp"
#include "pipeline/schedule.hpp"
#include "pipeline/stage_gradients.hpp"

namespace kolo::train {

/// The engine of PipelineParallel, which documents the behaviour.
class PipelineStep {
 public:
  PipelineStep(std::vector<PipelineStage> stages, PipelineParallel::Loss loss,
               const Communicator& communicator, const PipelineShape& shape, bool recompute,
               StageGradients& gradients);

  std::optional<double> step(const at::Tensor& input, const at::Tensor& target);
  at::Tensor forward(const at::Tensor& input);
  double mean_loss();

  const std::vector<PipelineStage>& stages() const noexcept { return stages_; }
  bool is_first() const noexcept { return rank_ == 0; }
  bool is_last() const noexcept { return rank_ + 1 == shape_.ranks; }
  const PipelineStatistics& last_step() const noexcept { return last_; }
  const PipelineStatistics& total() const noexcept { return total_; }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Kind : std::uint64_t { step, forward };
  struct Held {
    at::Tensor input;   ///< a leaf where a gradient goes back
    at::Tensor output;  ///< on the last stage the loss
  };
  struct Pass {
    Kind kind;
    at::Tensor input, target;
    bool is_agreed = false;
    double loss = 0;                  ///< the sum of micro-batches
    std::vector<at::Tensor> outputs;  ///< of the last stage, without a graph
  };

  void run(Pass& pass, BorderExchange& exchange);
  void run_actions(Pass& pass, BorderExchange& exchange);
  void forward_one(Pass& pass, BorderExchange& exchange, std::size_t action);
  void backward_one(BorderExchange& exchange, std::size_t action);
  void start_agreement(const Pass& pass);
  void agree(Pass& pass, BorderExchange& exchange);
  std::string problem_in(const Pass& pass) const;
  at::Tensor micro_batch_of(const at::Tensor& batch, int index) const;
  [[noreturn]] void fail(BorderExchange& exchange);

  std::vector<PipelineStage> stages_;
  PipelineParallel::Loss loss_;
  Communicator communicator_;
  const PipelineShape shape_;
  const int rank_;
  const bool recompute_;
  StageGradients& gradients_;
  BorderExchange training_, evaluation_;
  std::vector<std::size_t> last_backwards_;  ///< of each chunk: the index of the action in training_

  std::map<std::pair<int, int>, Held> held_;  ///< by chunk and micro-batch
  std::string problem_;                       ///< of this call, on this rank
  std::uint64_t own_word_ = 0;
  std::vector<std::uint64_t> words_;  ///< what ranks say about this call
  TensorWork agreement_;
  /// What shapes depend on, by kind: this rank's in the last call.
  std::map<Kind, std::vector<std::int64_t>> likeness_;

  std::exception_ptr error_;
  double last_loss_ = 0;
  PipelineStatistics last_, total_;
};

}  // namespace kolo::train

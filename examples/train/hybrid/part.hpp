// Part: what one rank of the grid has of the model, and how it computes gradients.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/modules/container/sequential.h>

#include <memory>
#include <vector>

#include "hybrid/options.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/grid.hpp"
#include "kolo/train/pipeline_parallel.hpp"
#include "kolo/train/sharded_data_parallel.hpp"

namespace hybrid {

/// The layers of this rank's stage, around them what averages their gradients, and around that the pipeline.
class Part {
 public:
  /// Collective. Throws kolo's errors, on all ranks, for a grid that does not fit the model.
  Part(const Options& options, kolo::Grid& grid);

  /// For the optimizer.
  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  /// Collective: gradients of a part of the batch, averaged over all replicas. Returns the mean loss over the
  /// whole batch.
  double backward(const at::Tensor& bytes, const at::Tensor& targets);
  /// Collective: scales all gradients, by the norm of the whole model's.
  double clip_gradients(double max_norm);

 private:
  using Layers = torch::nn::SequentialImpl;

  kolo::Grid& grid_;
  kolo::PipelineParallel::Loss loss_;
  torch::nn::Sequential layers_;
  // One of them: shards, or whole parameters of the only stage. The pipeline averages those of several.
  std::unique_ptr<kolo::ShardedDataParallel<Layers>> shards_;
  std::unique_ptr<kolo::DistributedDataParallel<Layers>> replica_;
  std::unique_ptr<kolo::PipelineParallel> pipeline_;
  std::vector<at::Tensor> parameters_;
};

}  // namespace hybrid

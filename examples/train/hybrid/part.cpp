#include "hybrid/part.hpp"

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "kolo/train/averages.hpp"
#include "kolo/train/group_functions.hpp"
#include "kolo/train/parallel_layers.hpp"
#include "kolo/train/slice.hpp"
#include "tensor/model.hpp"

namespace hybrid {
namespace {

/// The layers of this rank's stage, by the names that they have in the whole model.
torch::nn::Sequential stage_of(const torch::nn::Sequential& layers, kolo::Communicator& pipeline) {
  const auto count = static_cast<std::int64_t>(layers->size());
  if (count < pipeline.size()) {
    throw std::invalid_argument(std::to_string(count) + " layers cannot be " +
                                std::to_string(pipeline.size()) + " stages");
  }
  const kolo::Slice mine = kolo::slice_of(count, pipeline.rank(), pipeline.size());
  const auto children = layers->named_children();
  torch::nn::Sequential stage;
  for (std::int64_t i = mine.begin; i < mine.end(); ++i)
    stage->push_back(children[static_cast<std::size_t>(i)].key(), *(layers->begin() + i));
  return stage;
}

}  // namespace

Part::Part(const Options& options, kolo::Grid& grid)
    : grid_(grid), loss_([group = grid.tensor()](const at::Tensor& scores, const at::Tensor& targets) {
        return kolo::vocabulary_parallel_cross_entropy(scores, targets, tensor::kBytes, group);
      }) {
  const tensor::Model whole(options.model, grid.tensor());
  layers_ = stage_of(whole->layers, grid.pipeline());
  const bool has_stages = grid.pipeline().size() > 1;
  kolo::PipelineParallelOptions pipeline{.schedule = kolo::parse_pipeline_schedule(options.schedule),
                                         .micro_batches = options.micro_batches,
                                         .holders = grid.replica()};
  kolo::PipelineStage stage(layers_);
  if (grid.sharded().size() > 1) {
    shards_ = std::make_unique<kolo::ShardedDataParallel<Layers>>(
        layers_, grid.sharded(),
        kolo::ShardedDataParallelOptions{.holders = has_stages ? kolo::Communicator() : grid.replica()});
    stage.forward = [this](const at::Tensor& x) -> at::Tensor { return (*shards_)(x); };
    parameters_ = shards_->parameters();
  } else if (!has_stages) {
    replica_ = std::make_unique<kolo::DistributedDataParallel<Layers>>(
        layers_, grid.data(), kolo::DistributedDataParallelOptions{.holders = grid.replica()});
    parameters_ = replica_->parameters();
  } else {
    pipeline.data = grid.data();
    parameters_ = layers_->parameters();
  }
  if (has_stages) {
    pipeline_ = std::make_unique<kolo::PipelineParallel>(std::vector{std::move(stage)}, loss_,
                                                         grid.pipeline(), pipeline);
  }
}

double Part::backward(const at::Tensor& bytes, const at::Tensor& targets) {
  double loss = 0;
  if (pipeline_) {
    pipeline_->step(bytes, targets);
    loss = pipeline_->mean_loss();
  } else {
    const at::Tensor of_part = loss_(shards_ ? (*shards_)(bytes) : (*replica_)(bytes), targets);
    of_part.backward();
    loss = of_part.item().toDouble();
  }
  if (shards_) kolo::average_gradients(parameters_, grid_.data());
  return kolo::average({{"loss", loss}}, grid_.all()).at("loss");
}

double Part::clip_gradients(double max_norm) {
  const kolo::PlacedModel& placed = pipeline_ ? pipeline_->placed()
                                    : shards_ ? shards_->placed()
                                              : replica_->placed();
  return kolo::clip_gradients(placed, max_norm);
}

}  // namespace hybrid

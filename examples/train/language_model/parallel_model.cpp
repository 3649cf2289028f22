#include "language_model/parallel_model.hpp"

#include <torch/optim/adamw.h>

namespace language_model {

ParallelModel::ParallelModel(const Options& options, const Transformer& model,
                             kolo::Communicator& communicator)
    : options_(options) {
  if (options.shard != "none") {
    sharded_ = std::make_unique<kolo::ShardedDataParallel<TransformerImpl>>(
        model, communicator, kolo::ShardedDataParallelOptions{.shard = kolo::parse_shard(options.shard)});
    return;
  }
  kolo::DistributedDataParallelOptions parallel;
  parallel.first_bucket_bytes = 128u << 10;
  parallel.bucket_bytes = 1u << 20;
  plain_ = std::make_unique<kolo::DistributedDataParallel<TransformerImpl>>(model, communicator, parallel);
}

at::Tensor ParallelModel::operator()(const at::Tensor& bytes) {
  return sharded_ ? (*sharded_)(bytes) : (*plain_)(bytes);
}

void ParallelModel::train(bool is_on) {
  (sharded_ ? sharded_->model() : plain_->model()).train(is_on);
}

std::vector<ParallelModel::Part> ParallelModel::parts() const {
  std::vector<Part> result;
  for (const kolo::PlacedParameter& placed :
       (sharded_ ? sharded_->placed() : plain_->placed()).parameters()) {
    if (!placed.is_trained) continue;
    std::int64_t elements = 1;
    for (const std::int64_t size : placed.whole) elements *= size;
    result.push_back({placed.name, placed.tensor, placed.whole.size(), elements});
  }
  return result;
}

std::vector<torch::optim::OptimizerParamGroup> ParallelModel::groups() const {
  std::vector<at::Tensor> decayed, others;
  for (const Part& part : parts()) {
    const bool is_matrix = part.dimensions > 1 && !part.name.starts_with("embedding");
    (is_matrix ? decayed : others).push_back(part.tensor);
  }
  const auto with = [&](double decay) {
    return std::make_unique<torch::optim::AdamWOptions>(
        torch::optim::AdamWOptions(options_.learning_rate).betas({0.9, 0.99}).weight_decay(decay));
  };
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(decayed, with(options_.weight_decay));
  groups.emplace_back(others, with(0));
  return groups;
}

void ParallelModel::clip_gradients(double max_norm) {
  kolo::clip_gradients(sharded_ ? sharded_->placed() : plain_->placed(), max_norm);
}

std::int64_t ParallelModel::parameters() const {
  std::int64_t sum = 0;
  for (const Part& part : parts()) sum += part.elements;
  return sum;
}

const kolo::CommunicationStatistics& ParallelModel::total() const {
  return sharded_ ? sharded_->total() : plain_->total();
}

void ParallelModel::add_to(kolo::Checkpoint& checkpoint, torch::optim::Optimizer& optimizer) {
  if (sharded_) {
    checkpoint.add("model", *sharded_);
  } else {
    plain_->check(optimizer);
    checkpoint.add("model", *plain_);
  }
  checkpoint.add("optimizer", optimizer);
}

}  // namespace language_model

// The transformer on all ranks: whole on each of them, or divided among them.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/optim/optimizer.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kolo/train/checkpoint.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "language_model/model.hpp"
#include "language_model/options.hpp"

namespace language_model {

class ParallelModel {
 public:
  /// Collective.
  ParallelModel(const Options& options, const Transformer& model, kolo::Communicator& communicator);

  at::Tensor operator()(const at::Tensor& bytes);
  /// Collective: all parameters are there while `use` runs, which may do other things on each rank.
  template <typename Use>
  auto with_whole(const Use& use) {
    if (!sharded_) return use(plain_->model());
    const auto whole = sharded_->whole();
    return use(sharded_->model());
  }
  void train(bool is_on);

  /// What an optimizer moves: matrices decay; what is added or looked up does not.
  std::vector<torch::optim::OptimizerParamGroup> groups() const;
  /// Collective where the model is divided.
  void clip_gradients(double max_norm);
  /// Elements of all parameters.
  std::int64_t parameters() const;
  const kolo::CommunicationStatistics& total() const;

  /// For a checkpoint of this model and an optimizer of groups(), which both must outlive it.
  void add_to(kolo::Checkpoint& checkpoint, torch::optim::Optimizer& optimizer);

 private:
  struct Part {
    std::string name;
    at::Tensor tensor;
    std::size_t dimensions;  ///< of the whole
    std::int64_t elements;
  };
  std::vector<Part> parts() const;

  const Options& options_;
  std::unique_ptr<kolo::DistributedDataParallel<TransformerImpl>> plain_;  ///< one of these two
  std::unique_ptr<kolo::ShardedDataParallel<TransformerImpl>> sharded_;
};

}  // namespace language_model

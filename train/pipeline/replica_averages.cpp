#include "pipeline/replica_averages.hpp"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "gradients/bucket_assignment.hpp"
#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/tensor.hpp"

namespace kolo::train {
namespace {

NamedTensors tensors_of_all(const std::vector<std::shared_ptr<torch::nn::Module>>& modules) {
  NamedTensors all;
  for (std::size_t chunk = 0; chunk < modules.size(); ++chunk) {
    for (NamedTensor& tensor : tensors_of(*modules[chunk])) {
      const auto is_same = [&](const NamedTensor& other) { return other.tensor.is_same(tensor.tensor); };
      if (std::ranges::any_of(all, is_same)) continue;
      tensor.note = "of chunk " + std::to_string(chunk) + (tensor.tensor.requires_grad() ? ", trained" : "");
      all.push_back(std::move(tensor));
    }
  }
  return all;
}

}  // namespace

ReplicaAverages::ReplicaAverages(const std::vector<std::shared_ptr<torch::nn::Module>>& modules,
                                 Communicator communicator)
    : communicator_(std::move(communicator)) {
  NamedTensors all;
  std::string lines;
  agree(communicator_, "replicas of a stage", lines, [&] {
    all = tensors_of_all(modules);
    lines = text_of_layout(all);
  });
  Replicator(all).run(communicator_, 0);

  std::vector<ParameterSize> sizes;
  for (const NamedTensor& tensor : all) {
    if (!tensor.tensor.requires_grad()) continue;
    sizes.push_back({tensor.tensor.nbytes(), dtype_of_tensor(tensor.tensor.scalar_type())});
    trainable_.push_back(tensor);
  }
  std::vector<std::size_t> order(sizes.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
  const DistributedDataParallelOptions usual;
  for (const auto& members : assign_buckets(sizes, order, usual.bucket_bytes, usual.bucket_bytes))
    buckets_.emplace_back(members, trainable_);
}

void ReplicaAverages::average() {
  for (Bucket& bucket : buckets_) {
    for (std::size_t i = 0; i < bucket.slots().size(); ++i)
      bucket.collect_unused(i, trainable_[bucket.slots()[i].parameter].tensor);
  }
  for (Bucket& bucket : buckets_) bucket.start(communicator_, {});
  std::exception_ptr error;
  for (Bucket& bucket : buckets_) {
    try {
      bucket.wait();
    } catch (const std::exception&) {
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
  for (Bucket& bucket : buckets_) {
    for (const Bucket::Slot& slot : bucket.slots())
      trainable_[slot.parameter].tensor.mutable_grad() = slot.view;
  }
}

}  // namespace kolo::train

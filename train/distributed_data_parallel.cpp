#include "kolo/train/distributed_data_parallel.hpp"

#include <c10/core/GradMode.h>

#include "kolo/error.hpp"
#include "kolo/train/tensor.hpp"
#include "reducer.hpp"
#include "replicas.hpp"

namespace kolo {
namespace {

std::vector<train::NamedTensor> trainable_parameters(const torch::nn::Module& module) {
  std::vector<train::NamedTensor> result;
  for (const auto& item : module.named_parameters()) {
    if (!item.value().requires_grad()) continue;
    try {
      buffer_of(item.value());
    } catch (const InvalidArgument& error) {
      throw InvalidArgument("parameter '" + item.key() + "': " + error.what(), {});
    }
    result.push_back({item.key(), item.value()});
  }
  if (result.empty()) throw InvalidArgument("the model has no parameter that wants a gradient", {});
  return result;
}

std::vector<train::NamedTensor> parameters_and_buffers(const torch::nn::Module& module) {
  std::vector<train::NamedTensor> result;
  for (const auto& item : module.named_parameters()) result.push_back({item.key(), item.value()});
  for (const auto& item : module.named_buffers()) result.push_back({item.key(), item.value()});
  return result;
}

}  // namespace

struct DistributedDataParallelBase::State {
  State(std::shared_ptr<torch::nn::Module> module_, Communicator communicator,
        const DistributedDataParallelOptions& options_)
      : module(std::move(module_)),
        options(options_),
        reducer(trainable_parameters(*module), std::move(communicator), options),
        buffers(module->buffers()) {}

  std::shared_ptr<torch::nn::Module> module;
  DistributedDataParallelOptions options;
  train::Reducer reducer;
  train::Replicator buffers;
  int no_sync_depth = 0;
};

DistributedDataParallelBase::DistributedDataParallelBase(std::shared_ptr<torch::nn::Module> module,
                                                         Communicator communicator,
                                                         DistributedDataParallelOptions options) {
  if (!module) throw InvalidArgument("there is no model", {});
  if (!communicator.valid()) throw InvalidArgument("the communicator is not valid", {});
  const std::vector<train::NamedTensor> tensors = parameters_and_buffers(*module);
  train::require_same_layout(communicator, tensors);
  std::vector<at::Tensor> values;
  for (const train::NamedTensor& named : tensors) values.push_back(named.tensor);
  train::Replicator(std::move(values)).run(communicator);
  state_ = std::make_unique<State>(std::move(module), std::move(communicator), options);
}

DistributedDataParallelBase::~DistributedDataParallelBase() = default;

DistributedDataParallelBase::NoSync::NoSync(DistributedDataParallelBase& parallel) : parallel_(parallel) {
  ++parallel_.state_->no_sync_depth;
  parallel_.state_->reducer.set_synchronized(false);
}

DistributedDataParallelBase::NoSync::~NoSync() {
  if (--parallel_.state_->no_sync_depth == 0) parallel_.state_->reducer.set_synchronized(true);
}

void DistributedDataParallelBase::prepare_forward() {
  State& state = *state_;
  state.reducer.require_sound();
  if (state.options.broadcast_buffers && state.no_sync_depth == 0 && state.module->is_training()) {
    state.buffers.run(state.reducer.communicator());
  }
}

void DistributedDataParallelBase::prepare_backward(std::span<const at::Tensor> outputs) {
  State& state = *state_;
  if (!state.options.find_unused_parameters || !c10::GradMode::is_enabled()) return;
  state.reducer.expect_backward_from(outputs);
}

std::vector<at::Tensor> DistributedDataParallelBase::parameters() const {
  return state_->module->parameters();
}

Communicator& DistributedDataParallelBase::communicator() noexcept {
  return state_->reducer.communicator();
}

std::vector<DistributedDataParallelBase::BucketInfo> DistributedDataParallelBase::buckets() const {
  std::vector<BucketInfo> result;
  for (const train::Bucket& bucket : state_->reducer.buckets()) {
    BucketInfo info{{}, bucket.buffer()};
    for (const auto& slot : bucket.slots()) {
      info.parameters.push_back(state_->reducer.parameters()[slot.parameter].name);
    }
    result.push_back(std::move(info));
  }
  return result;
}

const CommunicationStatistics& DistributedDataParallelBase::last_step() const noexcept {
  return state_->reducer.last_step();
}

const CommunicationStatistics& DistributedDataParallelBase::total() const noexcept {
  return state_->reducer.total();
}

}  // namespace kolo

#include "kolo/train/distributed_data_parallel.hpp"

#include <ATen/MemoryOverlap.h>
#include <c10/core/GradMode.h>

#include <sstream>
#include <unordered_set>

#include "kolo/error.hpp"
#include "kolo/train/tensor.hpp"
#include "reducer.hpp"
#include "replicas.hpp"

namespace kolo {
namespace {

using NamedTensors = std::vector<train::NamedTensor>;

/// Every tensor once, under its first name, where libtorch lists it as often as it is registered (tied
/// weights).
NamedTensors once(const torch::OrderedDict<std::string, at::Tensor>& tensors) {
  NamedTensors result;
  std::unordered_set<const c10::TensorImpl*> met;
  for (const auto& item : tensors) {
    if (met.insert(item.value().unsafeGetTensorImpl()).second) result.push_back({item.key(), item.value()});
  }
  return result;
}

std::vector<at::Tensor> values_of(const NamedTensors& tensors) {
  std::vector<at::Tensor> result;
  for (const train::NamedTensor& named : tensors) result.push_back(named.tensor);
  return result;
}

/// Throws InvalidArgument, with its name, for a tensor whose values cannot be copied from rank to rank.
void require_served(const char* kind, const train::NamedTensor& named) {
  const at::Tensor& tensor = named.tensor;
  const std::string which = std::string(kind) + " '" + named.name + '\'';
  if (!tensor.device().is_cpu()) {
    throw InvalidArgument(which + " is on " + tensor.device().str() + ": only CPU tensors are served", {});
  }
  if (tensor.layout() != at::kStrided)
    throw InvalidArgument(which + " is sparse: only dense ones are served", {});
  if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes) {
    throw InvalidArgument(which + " has several elements at one place in memory: register its clone()", {});
  }
  if (!tensor.requires_grad()) return;
  if (!tensor.is_leaf()) {
    throw InvalidArgument(which + " is computed from others: register what it is computed from", {});
  }
  try {
    buffer_of(tensor);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(which + ": " + error.what(), {});
  }
}

std::string text_of(const DistributedDataParallelOptions& options) {
  std::ostringstream text;
  text << std::boolalpha << "the options first_bucket_bytes " << options.first_bucket_bytes
       << ", bucket_bytes " << options.bucket_bytes << ", rebuild_buckets " << options.rebuild_buckets
       << ", broadcast_buffers " << options.broadcast_buffers << ", find_unused_parameters "
       << options.find_unused_parameters;
  return text.str();
}

/// A model as it is when DistributedDataParallel is made.
struct Model {
  explicit Model(const torch::nn::Module& module) : buffers(once(module.named_buffers())) {
    for (train::NamedTensor& parameter : once(module.named_parameters())) {
      require_served("parameter", parameter);
      (parameter.tensor.requires_grad() ? trainable : frozen).push_back(std::move(parameter));
    }
    for (const train::NamedTensor& buffer : buffers) require_served("buffer", buffer);
    if (trainable.empty()) throw InvalidArgument("the model has no parameter that wants a gradient", {});
    for (train::NamedTensor& parameter : frozen) parameter.note = "frozen";
  }

  NamedTensors all() const {
    NamedTensors result = trainable;
    result.insert(result.end(), frozen.begin(), frozen.end());
    result.insert(result.end(), buffers.begin(), buffers.end());
    return result;
  }

  NamedTensors trainable;
  NamedTensors frozen;
  NamedTensors buffers;
};

/// Collective: the ranks' models are alike, and hold rank 0's values.
Model alike(Model model, Communicator& communicator, const DistributedDataParallelOptions& options) {
  const NamedTensors all = model.all();
  train::require_same_layout(communicator, all, text_of(options));
  train::Replicator(values_of(all)).run(communicator);
  return model;
}

}  // namespace

struct DistributedDataParallelBase::State {
  State(std::shared_ptr<torch::nn::Module> module_, Communicator communicator,
        const DistributedDataParallelOptions& options_)
      : module(std::move(module_)),
        options(options_),
        model(alike(Model(*module), communicator, options)),
        reducer(model.trainable, std::move(communicator), options),
        buffers(values_of(model.buffers)) {}

  void require_unchanged() const {
    reducer.require_watched();
    for (const train::NamedTensor& parameter : model.frozen) {
      if (!parameter.tensor.requires_grad()) continue;
      throw InvalidArgument(
          "parameter '" + parameter.name +
              "' was frozen when DistributedDataParallel was made and is not now: make a new one",
          {});
    }
  }

  std::shared_ptr<torch::nn::Module> module;
  DistributedDataParallelOptions options;
  Model model;
  train::Reducer reducer;
  train::Replicator buffers;
  int no_sync_depth = 0;
};

DistributedDataParallelBase::DistributedDataParallelBase(std::shared_ptr<torch::nn::Module> module,
                                                         Communicator communicator,
                                                         DistributedDataParallelOptions options) {
  if (!module) throw InvalidArgument("there is no model", {});
  if (!communicator.valid()) throw InvalidArgument("the communicator is not valid", {});
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
  if (!state.module->is_training()) return;
  if (c10::GradMode::is_enabled()) state.require_unchanged();
  if (state.options.broadcast_buffers && state.no_sync_depth == 0) {
    state.buffers.run(state.reducer.communicator());
  }
}

void DistributedDataParallelBase::prepare_backward(std::span<const at::Tensor> outputs, bool is_all) {
  if (c10::GradMode::is_enabled()) state_->reducer.expect_backward_from(outputs, is_all);
}

std::vector<at::Tensor> DistributedDataParallelBase::parameters() const {
  return values_of(once(state_->module->named_parameters()));
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

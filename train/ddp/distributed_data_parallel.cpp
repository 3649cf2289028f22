#include "kolo/train/distributed_data_parallel.hpp"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "ddp/model.hpp"
#include "ddp/parameter_check.hpp"
#include "ddp/reducer.hpp"
#include "ddp/replicas.hpp"
#include "kolo/error.hpp"
#include "kolo/train/optimizer_traits.hpp"

namespace kolo {

struct DistributedDataParallelBase::State {
  State(std::shared_ptr<torch::nn::Module> module_, Communicator communicator_,
        const DistributedDataParallelOptions& options_)
      : module(std::move(module_)),
        communicator(std::move(communicator_)),
        own(communicator.split(0)),
        options(require_compatible(options_)),
        model(train::alike(train::Model(*module, options), own, options)),
        reducer(model.trainable, model.tables, own, options),
        buffers(model.buffers),
        check(model.parameters(), options.check_parameters_every) {
    reducer.set_companions(options.broadcast_buffers ? &buffers : nullptr, &check);
    for (const train::NamedTensor& parameter : model.trainable)
      known.insert(parameter.tensor.unsafeGetTensorImpl());
    for (const train::NamedTensor& parameter : model.ignored)
      known.insert(parameter.tensor.unsafeGetTensorImpl());
    if (options.hook) options.hook->check(train::parts_of(model.dense()));
  }

  static const DistributedDataParallelOptions& require_compatible(
      const DistributedDataParallelOptions& options) {
    const auto exclude = [&](const char* other) {
      throw InvalidArgument("the options hook and " + std::string(other) + " exclude each other", {});
    };
    if (options.hook && options.wire) exclude("wire");
    if (options.hook && options.find_unused_parameters) exclude("find_unused_parameters");
    return options;
  }

  void require_unchanged() {
    reducer.require_watched();
    if (options.broadcast_buffers) buffers.require_unchanged();
    for (const auto& parameter : module->named_parameters()) {
      const at::Tensor& tensor = parameter.value();
      if (!tensor.requires_grad() || known.contains(tensor.unsafeGetTensorImpl())) continue;
      const bool was_frozen = std::ranges::any_of(
          model.frozen, [&](const train::NamedTensor& frozen) { return frozen.tensor.is_same(tensor); });
      throw InvalidArgument(
          "parameter '" + parameter.key() + "' was " +
              (was_frozen ? "frozen when DistributedDataParallel was made and is not now"
                          : "registered after DistributedDataParallel was made, so its gradients would not "
                            "be averaged") +
              ": make a new one",
          {});
    }
  }

  std::shared_ptr<torch::nn::Module> module;
  Communicator communicator;  ///< the caller's, which the caller goes on using
  Communicator own;           ///< so calls on the caller's cannot come between those of a step
  DistributedDataParallelOptions options;
  train::Model model;
  train::Reducer reducer;
  train::Replicator buffers;
  train::ParameterCheck check;
  std::unordered_set<const c10::TensorImpl*> known;  ///< parameters that are averaged, or ignored on purpose
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
  if (state.module->is_training() && c10::GradMode::is_enabled()) state.require_unchanged();
}

void DistributedDataParallelBase::prepare_backward(std::span<const at::Tensor> outputs, bool is_all) {
  if (c10::GradMode::is_enabled()) state_->reducer.expect_backward_from(outputs, is_all);
}

void DistributedDataParallelBase::check(const torch::optim::Optimizer& optimizer) const {
  if (state_->options.hook) state_->options.hook->check(traits_of(optimizer));
}

void DistributedDataParallelBase::set_loss_scale(float scale) {
  if (!(scale > 0) || !std::isfinite(scale))
    throw InvalidArgument("a loss scale of " + std::to_string(scale) + " is not positive and finite", {});
  state_->reducer.set_loss_scale(scale);
}

bool DistributedDataParallelBase::averages_are_finite() const noexcept {
  return state_->reducer.averages_are_finite();
}

std::vector<at::Tensor> DistributedDataParallelBase::parameters() const {
  return train::values_of(train::once(state_->module->named_parameters()));
}

Communicator& DistributedDataParallelBase::communicator() noexcept {
  return state_->communicator;
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

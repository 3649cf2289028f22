#include "kolo/train/sharded_data_parallel.hpp"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>
#include <utility>
#include <vector>

#include "kolo/error.hpp"
#include "libtorch/gradient_listener.hpp"
#include "optim/gradient_norm.hpp"
#include "ranks/machine.hpp"
#include "ranks/model.hpp"
#include "ranks/parts.hpp"
#include "sharded/sharded_step.hpp"
#include "sharded/unit_plan.hpp"

namespace kolo {
namespace {

constexpr std::array kShardNames{"optimizer_state", "gradients", "parameters"};

std::string text_of(const ShardedDataParallelOptions& options) {
  std::ostringstream text;
  text << std::boolalpha << "the options shard " << kShardNames.at(static_cast<std::size_t>(options.shard))
       << ", broadcast_buffers " << options.broadcast_buffers << ", units";
  for (const std::string& unit : options.units) text << ' ' << unit;
  return text.str();
}

void require_dense(const train::Model& model) {
  if (model.tables.empty()) return;
  throw InvalidArgumentError(
      "'" + model.trainable[model.tables[0]].name +
          "' has sparse gradients, which cannot be averaged in shards: make the embedding "
          "with sparse(false)",
      {});
}

}  // namespace

std::vector<std::string> shard_names() {
  return {kShardNames.begin(), kShardNames.end()};
}

Shard parse_shard(const std::string& name) {
  const auto found = std::ranges::find(kShardNames, name);
  if (found != kShardNames.end()) return static_cast<Shard>(found - kShardNames.begin());
  throw InvalidArgumentError(
      "there is no shard '" + name + "': it is optimizer_state, gradients or parameters", {});
}

struct ShardedDataParallelBase::State {
  State(std::shared_ptr<torch::nn::Module> module_, Communicator communicator_,
        const ShardedDataParallelOptions& options)
      : module(std::move(module_)),
        communicator(std::move(communicator_)),
        own(communicator.split(0)),
        model(agreed(own, module.get(), options, units)),
        buffers(model.buffers),
        step(std::move(units), options.broadcast_buffers ? &buffers : nullptr, own, options.shard) {
    for (const train::Unit& unit : step.units()) {
      for (const train::Unit::Member& member : unit.members()) shards.push_back(member.shard);
    }
    train::mark_parts(
        shards, own,
        {.of = "a ShardedDataParallel", .for_norms = "its clip_gradients()", .is_divided = true});
  }

  static train::Model agreed(Communicator& communicator, const torch::nn::Module* module,
                             const ShardedDataParallelOptions& options,
                             std::vector<train::PlannedUnit>& units) {
    const auto make = [&] {
      if (module == nullptr) throw InvalidArgumentError("there is no model", {});
      train::Model model(*module, DistributedDataParallelOptions{});
      require_dense(model);
      units = train::plan_units(*module, options.units, model.trainable);
      for (const NamedTensor& parameter : model.trainable)
        train::require_unheard(parameter.name, parameter.tensor);
      return model;
    };
    train::Model model = train::make_alike(communicator, "ShardedDataParallel", text_of(options), make);
    train::compare_machines(communicator, false);
    return model;
  }

  std::shared_ptr<torch::nn::Module> module;
  Communicator communicator;              ///< the caller's, which the caller goes on using
  Communicator own;                       ///< so calls on the caller's cannot come between those of a step
  std::vector<train::PlannedUnit> units;  ///< for `step`, which takes them
  train::Model model;
  train::Replicator buffers;
  train::ShardedStep step;
  std::vector<at::Tensor> shards;
};

ShardedDataParallelBase::ShardedDataParallelBase(std::shared_ptr<torch::nn::Module> module,
                                                 Communicator communicator,
                                                 ShardedDataParallelOptions options) {
  if (!communicator.valid()) throw InvalidArgumentError("the communicator is not valid", {});
  state_ = std::make_unique<State>(std::move(module), std::move(communicator), options);
}

ShardedDataParallelBase::~ShardedDataParallelBase() = default;

ShardedDataParallelBase::Whole::Whole(ShardedDataParallelBase& parallel) : parallel_(parallel) {
  parallel_.state_->step.make_whole();
}

ShardedDataParallelBase::Whole::~Whole() {
  parallel_.state_->step.leave_whole();
}

void ShardedDataParallelBase::begin_forward() {
  state_->step.begin_forward();
}

void ShardedDataParallelBase::end_forward() {
  state_->step.end_forward();
}

std::vector<at::Tensor> ShardedDataParallelBase::parameters() const {
  return state_->shards;
}

std::vector<ShardedDataParallelBase::ShardedParameter> ShardedDataParallelBase::sharded_parameters() const {
  std::vector<ShardedParameter> result;
  for (const train::Unit& unit : state_->step.units()) {
    for (const train::Unit::Member& member : unit.members())
      result.push_back(
          {member.named.name, member.named.tensor.sizes().vec(), member.shard, unit.counts_of(member)});
  }
  return result;
}

SumOverRanks ShardedDataParallelBase::sum_over_ranks() {
  return [communicator = state_->step.communicator()](std::vector<double>& squares) mutable {
    communicator.all_reduce(Buffer(squares));
  };
}

double ShardedDataParallelBase::clip_gradients(double max_norm) {
  train::check_max_norm(max_norm);
  const c10::NoGradGuard no_grad;
  std::vector<double> total{0};
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& shard : parameters()) {
    if (!shard.grad().defined()) continue;
    gradients.push_back(shard.grad());
    total[0] += train::sum_of_squares(shard.grad());
  }
  sum_over_ranks()(total);
  const double norm = std::sqrt(total[0]);
  train::scale_to_norm(gradients, norm, max_norm);
  return norm;
}

Communicator& ShardedDataParallelBase::communicator() noexcept {
  return state_->communicator;
}

const CommunicationStatistics& ShardedDataParallelBase::total() const noexcept {
  return state_->step.total();
}

}  // namespace kolo

#include "kolo/train/sharded_data_parallel.hpp"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "gradients/reducer.hpp"
#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"
#include "libtorch/gradient_listener.hpp"
#include "placement/placement.hpp"
#include "ranks/holders.hpp"
#include "ranks/model.hpp"
#include "sharded/shard_averaging.hpp"
#include "sharded/sharded_step.hpp"
#include "sharded/unit.hpp"

namespace kolo {
namespace {

constexpr const char* kShards = "ShardedDataParallel";
constexpr std::array kShardNames{"optimizer_state", "gradients", "parameters"};

std::string text_of(const ShardedDataParallelOptions& options) {
  std::ostringstream text;
  text << std::boolalpha << "the options shard " << kShardNames.at(static_cast<std::size_t>(options.shard))
       << ", broadcast_buffers " << options.broadcast_buffers << (options.holders.valid() ? ", holders" : "")
       << (options.data.valid() ? ", data" : "") << ", hook "
       << (options.hook ? options.hook->describe() : "none") << ", units";
  for (const std::string& unit : options.units) text << ' ' << unit;
  if (options.gather_type) text << ", gather_type " << *options.gather_type;
  return text.str();
}

void require_dense_gradients(const train::Model& model) {
  if (model.tables.empty()) return;
  throw InvalidArgumentError(
      "'" + model.trainable[model.tables[0]].name +
          "' has sparse gradients, which cannot be averaged in shards: make the embedding "
          "with sparse(false)",
      {});
}

/// The dimensions as a dense tensor's elements lie in memory, the outermost first.
std::vector<std::int64_t> memory_order(const at::Tensor& tensor) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(tensor.dim()));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::int64_t d) { return tensor.stride(d); });
  return order;
}

void require_gathered(const train::Model& model, at::ScalarType type) {
  if (type != at::kBFloat16 && type != at::kHalf) {
    throw InvalidArgumentError(std::string("gather_type is BFloat16 or Half, and not ") + c10::toString(type),
                               {});
  }
  for (const NamedTensor& parameter : model.trainable) {
    const at::ScalarType own = parameter.tensor.scalar_type();
    if (own == at::kFloat || own == type) continue;
    throw InvalidArgumentError("gather_type " + std::string(c10::toString(type)) +
                                   " serves parameters of Float, and '" + parameter.name + "' is one of " +
                                   c10::toString(own),
                               {});
  }
}

void require_scatters(const GradientHook& hook, const train::Model& model) {
  if (!hook.can_scatter()) {
    throw InvalidArgumentError("the hook " + hook.describe() +
                                   " cannot average gradients in shards: take one that encodes each gradient "
                                   "for itself (float16, bfloat16, float8, int8, one_bit)",
                               {});
  }
  hook.check(train::parts_of(model.trainable));
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
  State(std::shared_ptr<torch::nn::Module> module_, Communicator& communicator,
        const ShardedDataParallelOptions& options)
      : module(std::move(module_)),
        own(communicator.split(0)),
        data(options.data.valid() ? Communicator(options.data).split(0) : Communicator()),
        model(agreed(own, data, module.get(), options, units)),
        buffers(model.buffers),
        step(units, own, options),
        averaging(new train::ShardAveraging(step, own, data, options.hook)),
        reducer(averaging->parameters(), kinds(), own,
                {.owner = "ShardedDataParallel",
                 .is_replaceable = false,
                 .find_unused_parameters = true,
                 .may_rebuild = true,
                 .hook = options.hook,
                 .timeline = communicator.timeline()}),
        placement(placed_parameters_of(), options.holders, own) {
    if (options.broadcast_buffers) reducer.set_companions(&buffers, nullptr);
    const auto part = train::part_of_group(own, "a ShardedDataParallel", "pass its placed()", true);
    for (const auto& [parameter, placed] : in_shards) {
      if (placed->is_trained) shards.push_back(placed->tensor);
      if (part) held.add(placed->tensor, *part);
      held.add(
          parameter,
          {.what = "in shards of a ShardedDataParallel", .instead = "pass its placed()", .shard = placed});
    }
  }

  /// Shards, those that are trained in the order of parameters(), then what each rank has whole. Fills
  /// in_shards.
  std::vector<PlacedParameter> placed_parameters_of() {
    std::vector<PlacedParameter> all = placed_parameters(*module), placed;
    for (const train::Unit& unit : step.units()) {
      for (const train::Unit::Member& member : unit.members()) {
        const auto found = std::ranges::find_if(
            all, [&](const PlacedParameter& one) { return one.tensor.is_same(member.named.tensor); });
        PlacedParameter one = std::move(*found);
        all.erase(found);
        const std::vector<std::uint64_t> counts = unit.counts_of(member);
        const auto mine = counts.begin() + own.rank();
        one.region.range = {
            static_cast<std::int64_t>(std::accumulate(counts.begin(), mine, std::uint64_t{0})),
            static_cast<std::int64_t>(*mine)};
        if (!one.tensor.is_contiguous()) one.order = memory_order(one.tensor);
        one.tensor = member.shard;
        placed.push_back(one);
        in_shards.emplace_back(member.named.tensor, std::make_shared<PlacedParameter>(std::move(one)));
      }
    }
    for (PlacedParameter& one : all) {
      one.is_trained = false;
      placed.push_back(std::move(one));
    }
    return placed;
  }

  std::vector<std::unique_ptr<train::Averaging>> kinds() {
    std::vector<std::unique_ptr<train::Averaging>> kinds;
    kinds.emplace_back(averaging);
    return kinds;
  }

  /// Collective over both communicators: ranks of one learn of what those of the other find.
  static train::Model agreed(Communicator& communicator, Communicator& data, const torch::nn::Module* module,
                             const ShardedDataParallelOptions& options,
                             std::vector<train::PlannedUnit>& units) {
    const auto make = [&] {
      if (module == nullptr) throw InvalidArgumentError("there is no model", {});
      train::Model model(*module, DistributedDataParallelOptions{});
      require_dense_gradients(model);
      if (options.gather_type) require_gathered(model, *options.gather_type);
      units = train::plan_units(*module, options.units);
      if (options.hook) require_scatters(*options.hook, model);
      for (const NamedTensor& parameter : model.trainable)
        train::require_unheard(parameter.name, parameter.tensor);
      return model;
    };
    std::optional<train::Model> model;
    std::exception_ptr error;
    const auto attempt = [&error](const auto& action) {
      try {
        action();
      } catch (const InvalidArgumentError&) {
        error = std::current_exception();
      } catch (const MismatchError&) {
        error = std::current_exception();
      }
    };
    attempt([&] { model = train::make_alike(communicator, kShards, text_of(options), make); });
    if (data.valid()) {
      std::string lines;
      const auto require_none = [&] {
        if (error) std::rethrow_exception(error);
        lines = "shard " + std::to_string(communicator.rank()) + " of " +
                std::to_string(communicator.size()) + '\n' + train::text_of_layout(model->all());
      };
      attempt([&] { agree(data, kShards, lines, require_none); });
      attempt([&] { agree(communicator, kShards, "", require_none); });
    }
    if (error) std::rethrow_exception(error);
    if (data.valid()) train::Replicator(model->all()).run(data, 0);
    return std::move(*model);
  }

  std::shared_ptr<torch::nn::Module> module;
  Communicator own, data;                 ///< so calls on the caller's cannot come between those of a step
  std::vector<train::PlannedUnit> units;  ///< for `step`
  train::Model model;
  train::Replicator buffers;
  train::ShardedStep step;
  train::ShardAveraging* averaging;  ///< of `reducer`
  train::Reducer reducer;
  std::vector<std::pair<at::Tensor, std::shared_ptr<const PlacedParameter>>> in_shards;
  train::Placement placement;
  std::vector<at::Tensor> shards;
  train::Held held;
};

ShardedDataParallelBase::ShardedDataParallelBase(std::shared_ptr<torch::nn::Module> module,
                                                 Communicator communicator,
                                                 ShardedDataParallelOptions options)
    : ParallelModel(std::move(communicator)),
      state_(std::make_unique<State>(std::move(module), this->communicator(), options)) {}

ShardedDataParallelBase::~ShardedDataParallelBase() = default;

ShardedDataParallelBase::Whole::Whole(ShardedDataParallelBase& parallel) : parallel_(parallel) {
  parallel_.state_->reducer.make_whole();
}

ShardedDataParallelBase::Whole::~Whole() {
  parallel_.state_->step.leave_whole();
}

void ShardedDataParallelBase::begin_forward() {
  state_->reducer.require_no_error();
  state_->step.begin_forward();
  if (c10::GradMode::is_enabled()) state_->reducer.require_watched();
}

void ShardedDataParallelBase::end_forward() {
  state_->reducer.require_no_error();
  state_->step.end_forward();
}

std::vector<at::Tensor> ShardedDataParallelBase::parameters() const {
  return state_->shards;
}

const PlacedModel& ShardedDataParallelBase::placed() const {
  return state_->placement.get();
}

void ShardedDataParallelBase::set_local(bool is_local) {
  state_->reducer.set_local(is_local);
}

void ShardedDataParallelBase::set_loss_scale(float scale) {
  require_scale(scale);
  state_->averaging->set_loss_scale(scale);
}

const CommunicationStatistics& ShardedDataParallelBase::total() const noexcept {
  return state_->reducer.total();
}

}  // namespace kolo

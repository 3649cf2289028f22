#include "kolo/train/distributed_data_parallel.hpp"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <exception>
#include <sstream>
#include <unordered_set>

#include "gradients/join_agreement.hpp"
#include "gradients/reducer.hpp"
#include "gradients/sliced_averaging.hpp"
#include "gradients/table_averaging.hpp"
#include "gradients/whole_averaging.hpp"
#include "kolo/error.hpp"
#include "kolo/train/optim.hpp"
#include "kolo/train/sync_batch_norm.hpp"
#include "placement/placement.hpp"
#include "ranks/agreement.hpp"
#include "ranks/holders.hpp"
#include "ranks/model.hpp"

namespace kolo {
namespace {

std::string text_of(const DistributedDataParallelOptions& options) {
  std::ostringstream text;
  text << std::boolalpha << "the options first_bucket_bytes " << options.first_bucket_bytes
       << ", bucket_bytes " << options.bucket_bytes << ", rebuild_buckets " << options.rebuild_buckets
       << ", bucket_borders " << (options.bucket_borders == BucketBorders::sizes ? "sizes" : "measured")
       << ", broadcast_buffers " << options.broadcast_buffers << ", find_unused_parameters "
       << options.find_unused_parameters << ", static_graph " << options.static_graph << ", overlap_forward "
       << static_cast<bool>(options.overlap_forward) << ", require_equal_machines "
       << options.require_equal_machines << ", check_parameters_every " << options.check_parameters_every
       << ", sparse_method "
       << (options.sparse_method == SparseMethod::all_reduce ? "all_reduce" : "all_gather") << ", wire "
       << (options.wire ? name_of(*options.wire) : "not set") << ", hook "
       << (options.hook ? options.hook->describe() : "none") << (options.holders.valid() ? ", holders" : "");
  return text.str();
}

/// What is averaged is trained.
std::vector<PlacedParameter> placed_by(const torch::nn::Module& module, const train::Model& model) {
  std::vector<PlacedParameter> placed = placed_parameters(module);
  for (PlacedParameter& parameter : placed) {
    const auto found = std::ranges::find_if(
        model.trainable, [&](const auto& named) { return named.tensor.is_same(parameter.tensor); });
    parameter.is_trained = found != model.trainable.end();
    parameter.has_sparse_gradients =
        parameter.is_trained &&
        std::ranges::binary_search(model.tables, static_cast<std::size_t>(found - model.trainable.begin()));
  }
  return placed;
}

}  // namespace

struct DistributedDataParallelBase::State {
  State(std::shared_ptr<torch::nn::Module> module_, Communicator& communicator,
        const DistributedDataParallelOptions& options_)
      : module(std::move(module_)),
        own(communicator.split(0)),
        options(options_),
        model(agreed(module.get(), options, own)),
        reducer(model.trainable, kinds(), own, reducer_options()),
        buffers(model.buffers),
        placement(placed_by(*module, model), options.holders, {}) {
    reducer.set_companions(options.broadcast_buffers ? &buffers : nullptr,
                           [this](Communicator& communicator) { check_parameters(communicator); });
    for (const NamedTensor& parameter : model.trainable) known.insert(parameter.tensor.unsafeGetTensorImpl());
    for (const NamedTensor& parameter : model.ignored) known.insert(parameter.tensor.unsafeGetTensorImpl());
    for (std::size_t i = 0; options.overlap_forward && i < model.trainable.size(); ++i) {
      held.add(model.trainable[i].tensor,
               {.what = "a norm over all gradients and overlap_forward exclude each other: "
                        "steps are made bucket by bucket",
                .instead = {}});
    }
  }

  /// Collective. Tables come first.
  std::vector<std::unique_ptr<train::Averaging>> kinds() {
    std::vector<std::unique_ptr<train::Averaging>> kinds;
    std::vector<std::size_t> dense;
    for (std::size_t i = 0; i < model.trainable.size(); ++i) {
      if (std::ranges::find(model.tables, i) == model.tables.end()) dense.push_back(i);
    }
    if (!model.tables.empty()) {
      kinds.push_back(
          std::make_unique<train::TableAveraging>(model.trainable, model.tables, own, options.sparse_method));
    }
    if (options.overlap_forward) {
      auto kind = std::make_unique<train::SlicedAveraging>(model.trainable, dense, own, options);
      whole = sliced = kind.get();
      kinds.push_back(std::move(kind));
    } else {
      auto kind = std::make_unique<train::WholeAveraging>(model.trainable, dense, own, options);
      whole = kind.get();
      kinds.push_back(std::move(kind));
    }
    return kinds;
  }

  train::ReducerOptions reducer_options() const {
    return {
        .find_unused_parameters = options.find_unused_parameters,
        .static_graph = options.static_graph,
        .may_rebuild = options.rebuild_buckets && !options.find_unused_parameters && !options.overlap_forward,
        .hook = options.hook,
        .timeline = options.timeline};
  }

  /// Collective: with rank 0's values.
  static train::Model agreed(const torch::nn::Module* module, const DistributedDataParallelOptions& options,
                             Communicator& communicator) {
    const auto make = [&] {
      if (module == nullptr) throw InvalidArgumentError("there is no model", {});
      require_compatible(options);
      train::Model model(*module, options);
      require_dense(model, options);
      if (options.hook) options.hook->check(train::parts_of(model.dense()));
      for (const auto& [name, parameter, note] : model.trainable) {  // that of another Reducer retires it
        if (train::Reducer::of(parameter) == nullptr) train::require_unheard(name, parameter);
      }
      return model;
    };
    return train::make_alike(communicator, "DistributedDataParallel", text_of(options), make,
                             options.require_equal_machines);
  }

  static void require_compatible(const DistributedDataParallelOptions& options) {
    const std::pair<const char*, bool> hook{"hook", options.hook != nullptr},
        wire{"wire", options.wire.has_value()},
        unused{"find_unused_parameters", options.find_unused_parameters},
        overlap{"overlap_forward", static_cast<bool>(options.overlap_forward)},
        graph{"static_graph", options.static_graph};
    for (const auto& [one, other] :
         {std::pair(hook, wire), std::pair(hook, unused), std::pair(hook, overlap),
          std::pair(unused, overlap), std::pair(graph, unused), std::pair(graph, overlap)}) {
      if (!one.second || !other.second) continue;
      throw InvalidArgumentError(
          std::string("the options ") + one.first + " and " + other.first + " exclude each other", {});
    }
    if (options.hook && !options.hook->keeps_ranks_equal() && options.check_parameters_every > 0)
      throw InvalidArgumentError("the option check_parameters_every does not go with the hook " +
                                     options.hook->describe() + ", with which ranks' parameters differ",
                                 {});
  }

  static void require_dense(const train::Model& model, const DistributedDataParallelOptions& options) {
    if (!options.overlap_forward || model.tables.empty()) return;
    throw InvalidArgumentError("'" + model.trainable[model.tables[0]].name +
                                   "' has sparse gradients, which exclude the option overlap_forward",
                               {});
  }

  void require_unchanged() {
    reducer.require_watched();
    if (options.broadcast_buffers) buffers.require_unchanged();
    for (const auto& parameter : module->named_parameters()) {
      const at::Tensor& tensor = parameter.value();
      if (!tensor.requires_grad() || known.contains(tensor.unsafeGetTensorImpl())) continue;
      const bool was_frozen = std::ranges::any_of(
          model.frozen, [&](const NamedTensor& frozen) { return frozen.tensor.is_same(tensor); });
      throw InvalidArgumentError(
          "parameter '" + parameter.key() + "' was " +
              (was_frozen ? "frozen when DistributedDataParallel was made and is not now"
                          : "registered after DistributedDataParallel was made, so its gradients would not "
                            "be averaged") +
              ": make a new one",
          {});
    }
  }

  /// Collective, once a step: proves now and then that all ranks still hold the same parameters.
  void check_parameters(Communicator& communicator) {
    if (options.check_parameters_every == 0 || steps_checked++ % options.check_parameters_every != 0) return;
    const train::NamedTensors parameters = model.parameters();
    std::vector<std::uint64_t> mine;
    for (const NamedTensor& parameter : parameters) {
      const at::Tensor values = parameter.tensor.is_non_overlapping_and_dense()
                                    ? parameter.tensor.detach().cpu()
                                    : parameter.tensor.detach().cpu().contiguous();
      mine.push_back(train::hash_of(values.data_ptr(), values.nbytes()));
    }
    if (!train::find_odd(communicator, train::hash_of(mine.data(), mine.size() * sizeof mine[0]))) return;

    const auto ranks = static_cast<std::size_t>(communicator.size());
    std::vector<std::uint64_t> all(ranks * mine.size());
    communicator.all_gather(ConstBuffer(mine), Buffer(all));
    for (std::size_t i = 0; i < mine.size(); ++i) {
      std::vector<std::uint64_t> by_rank;
      for (std::size_t r = 0; r < ranks; ++r) by_rank.push_back(all[r * mine.size() + i]);
      const auto odd = train::find_odd(by_rank);
      if (!odd) continue;
      throw MismatchError("the ranks' parameters differ: rank " + std::to_string(odd->rank) +
                              " has other values of '" + parameters[i].name + "' than rank " +
                              std::to_string(odd->usual) + " in step " + std::to_string(steps_checked) +
                              ": what is loaded on one rank after DistributedDataParallel was made needs "
                              "kolo::broadcast(), and every rank's optimizer must do the same",
                          {.peer = odd->rank, .collective = "DistributedDataParallel"});
    }
  }

  void weigh_norms(const std::function<double()>& factor) {
    for (const auto& layer : module->modules()) {
      if (auto* const norm = layer->as<SyncBatchNorm>()) norm->set_loss_factor(factor);
    }
  }

  std::shared_ptr<torch::nn::Module> module;
  Communicator own;  ///< so calls on the caller's cannot come between those of a step
  DistributedDataParallelOptions options;
  train::Model model;
  train::WholeAveraging* whole = nullptr;  ///< kinds of the reducer; they are one with overlap_forward
  train::SlicedAveraging* sliced = nullptr;
  train::Reducer reducer;
  train::Replicator buffers;
  std::uint64_t steps_checked = 0;  ///< or passed over, by check_parameters_every
  train::Placement placement;
  train::Held held;
  std::unordered_set<const c10::TensorImpl*> known;  ///< parameters that are averaged, or ignored on purpose
  std::shared_ptr<train::JoinAgreement> join;        ///< null: all ranks have data in every step
  /// Why the model as it is cannot be trained: backward() throws it, as eval() alone does not say that there
  /// is one.
  std::exception_ptr changed;
};

DistributedDataParallelBase::DistributedDataParallelBase(std::shared_ptr<torch::nn::Module> module,
                                                         Communicator communicator,
                                                         DistributedDataParallelOptions options)
    : ParallelModel(std::move(communicator)) {
  if (!options.timeline) options.timeline = this->communicator().timeline();
  state_ = std::make_unique<State>(std::move(module), this->communicator(), options);
}

DistributedDataParallelBase::~DistributedDataParallelBase() = default;

void DistributedDataParallelBase::set_local(bool is_local) {
  state_->reducer.set_local(is_local);
}

DistributedDataParallelBase::Join::Join(DistributedDataParallelBase& parallel, JoinMode mode)
    : parallel_(parallel) {
  State& state = *parallel_.state_;
  state.reducer.require_sound();
  if (state.join) throw InvalidArgumentError("join(): the one before has not been destroyed", {});
  if (state.options.hook && !state.options.hook->keeps_ranks_equal())
    throw InvalidArgumentError("join() does not go with the hook " + state.options.hook->describe() +
                                   ", which does not average over all ranks",
                               {});
  state.join = std::make_shared<train::JoinAgreement>(state.own, mode);
  state.reducer.set_join(state.join.get());
  state.weigh_norms([join = state.join] { return join->factor(); });
}

DistributedDataParallelBase::Join::~Join() {
  State& state = *parallel_.state_;
  if (!is_finished_) state.reducer.leave("left join() without finish()");
  state.reducer.set_join(nullptr);
  state.weigh_norms({});
  state.join.reset();
}

void DistributedDataParallelBase::Join::step(std::int64_t samples) {
  if (samples < 0) throw InvalidArgumentError("join(): " + std::to_string(samples) + " samples", {});
  if (is_finished_) throw InvalidArgumentError("join(): step() after finish()", {});
  parallel_.state_->join->announce(static_cast<std::uint64_t>(samples));
}

void DistributedDataParallelBase::Join::finish(const std::function<void()>& optimizer_step,
                                               const std::function<void()>& empty_pass) {
  State& state = *parallel_.state_;
  const bool steps_itself = state.sliced != nullptr;
  if (!optimizer_step && !steps_itself)
    throw InvalidArgumentError("join(): finish() needs the optimizer's step", {});
  if (optimizer_step && steps_itself)
    throw InvalidArgumentError("join(): overlap_forward makes the steps: give finish() an empty function",
                               {});
  while (!is_finished_) {
    state.reducer.require_sound();
    state.join->announce({});
    is_finished_ = !state.reducer.follow(empty_pass);
    if (!is_finished_ && optimizer_step) optimizer_step();
  }
  state.reducer.finish_step();
}

void DistributedDataParallelBase::prepare_forward() {
  State& state = *state_;
  state.reducer.require_sound();
  state.changed = nullptr;
  if (!c10::GradMode::is_enabled()) return;
  state.reducer.begin_pass();
  try {
    state.require_unchanged();
  } catch (const InvalidArgumentError&) {
    if (state.module->is_training()) throw;
    state.changed = std::current_exception();
  }
}

void DistributedDataParallelBase::prepare_backward(std::span<const at::Tensor> outputs, bool is_all) {
  state_->reducer.require_sound();  // forward may have waited for averages in vain
  if (const std::exception_ptr changed = state_->changed) {
    if (!is_all || outputs.empty()) std::rethrow_exception(changed);
    for (const at::Tensor& output : outputs) {
      if (output.defined() && output.requires_grad())
        output.register_hook([changed](const at::Tensor&) { std::rethrow_exception(changed); });
    }
  }
  if (c10::GradMode::is_enabled()) state_->reducer.expect_backward_from(outputs, is_all);
}

void DistributedDataParallelBase::finish_step() {
  state_->reducer.finish_step();
}

void DistributedDataParallelBase::change_optimizers(
    const std::function<void(torch::optim::Optimizer&)>& change) {
  if (state_->sliced != nullptr) state_->sliced->change_optimizers(change);
}

std::vector<torch::optim::Optimizer*> DistributedDataParallelBase::optimizers() {
  state_->reducer.finish_step();
  if (state_->sliced == nullptr) return {};
  return state_->sliced->optimizers();
}

void DistributedDataParallelBase::check(const torch::optim::Optimizer& optimizer) const {
  if (state_->options.overlap_forward)
    throw InvalidArgumentError("overlap_forward has an optimizer for each bucket: there is none to step", {});
  if (state_->options.hook) state_->options.hook->check(traits_of(optimizer));
}

bool DistributedDataParallelBase::keeps_ranks_equal() const noexcept {
  return !state_->options.hook || state_->options.hook->keeps_ranks_equal();
}

void DistributedDataParallelBase::set_loss_scale(float scale) {
  require_scale(scale);
  if (state_->options.overlap_forward && scale != 1) {
    throw InvalidArgumentError(
        "loss scaling and overlap_forward exclude each other: a step for which the scale was too large would "
        "be made all the same",
        {});
  }
  state_->whole->set_loss_scale(scale);
}

bool DistributedDataParallelBase::averages_are_finite() const {
  return state_->reducer.averages_are_finite();
}

std::vector<at::Tensor> DistributedDataParallelBase::parameters() const {
  state_->reducer.finish_step();
  return train::values_of(train::once(state_->module->named_parameters()));
}

std::vector<PlacedParameter> placed_parameters(const torch::nn::Module& module,
                                               const DistributedDataParallelOptions& options) {
  return placed_by(module, {module, options});
}

const PlacedModel& DistributedDataParallelBase::placed() const {
  return state_->placement.get();
}

std::vector<DistributedDataParallelBase::BucketInfo> DistributedDataParallelBase::buckets() const {
  state_->reducer.finish_step();
  std::vector<BucketInfo> result;
  const std::vector<train::Bucket>& buckets = state_->whole->buckets();
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    BucketInfo info{{}, buckets[b].buffer()};
    for (const std::size_t parameter : state_->whole->members()[b])
      info.parameters.push_back(state_->model.trainable[parameter].name);
    result.push_back(std::move(info));
  }
  return result;
}

BucketPlan DistributedDataParallelBase::bucket_plan() const {
  return state_->whole->plan();
}

const CommunicationStatistics& DistributedDataParallelBase::last_step() const noexcept {
  return state_->reducer.last_step();
}

const CommunicationStatistics& DistributedDataParallelBase::total() const noexcept {
  return state_->reducer.total();
}

}  // namespace kolo

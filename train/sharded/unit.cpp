#include "sharded/unit.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "kolo/error.hpp"

namespace kolo::train {
namespace {

at::ScalarType type_of(const PlannedUnit& plan) {
  return plan.parameters[0].tensor.scalar_type();
}

/// The children; in place of a list of modules, what is in it.
std::vector<std::string> default_names(const torch::nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& child : module.named_children()) {
    const bool is_list = child.value()->as<torch::nn::Sequential>() != nullptr ||
                         child.value()->as<torch::nn::ModuleList>() != nullptr;
    if (!is_list) names.push_back(child.key());
    if (!is_list) continue;
    for (const auto& inner : child.value()->named_children())
      names.push_back(child.key() + '.' + inner.key());
  }
  return names;
}

void require_apart(const std::vector<std::string>& names) {
  for (const std::string& one : names) {
    for (const std::string& other : names) {
      if (&one == &other || !(other + '.').starts_with(one + '.')) continue;
      throw InvalidArgumentError(
          "`units` names '" + one + "' and '" + other + "', which is the same or within it", {});
    }
  }
}

}  // namespace

std::vector<PlannedUnit> plan_units(const torch::nn::Module& module, const std::vector<std::string>& names) {
  require_apart(names);
  const auto modules = module.named_modules("", false);
  const std::vector<std::string> units = names.empty() ? default_names(module) : names;
  // Of each parameter: which units use it.
  std::unordered_map<const c10::TensorImpl*, std::vector<std::size_t>> users;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (!modules.contains(units[i]))
      throw InvalidArgumentError("`units` names '" + units[i] + "', which is no submodule of the model", {});
    for (const at::Tensor& parameter : modules[units[i]]->parameters()) {
      auto& of_parameter = users[parameter.unsafeGetTensorImpl()];
      if (of_parameter.empty() || of_parameter.back() != i) of_parameter.push_back(i);
    }
  }
  std::vector<PlannedUnit> result;
  for (const NamedTensor& parameter : once(module.named_parameters())) {
    const bool is_frozen = !parameter.tensor.requires_grad();
    if (is_frozen && !problem_of([&] { buffer_of(parameter.tensor); }).empty()) continue;
    const auto& of_parameter = users[parameter.tensor.unsafeGetTensorImpl()];
    const bool is_shared = of_parameter.size() != 1;
    const std::string name = is_shared ? "" : units[of_parameter.front()];
    const auto is_of_module = [&](const PlannedUnit& unit) { return unit.name == name; };
    const auto found = std::ranges::find_if(result, [&](const PlannedUnit& unit) {
      return is_of_module(unit) && unit.is_frozen == is_frozen &&
             unit.parameters[0].tensor.scalar_type() == parameter.tensor.scalar_type();
    });
    if (found != result.end()) {
      found->parameters.push_back(parameter);
      continue;
    }
    const auto last = std::find_if(result.rbegin(), result.rend(), is_of_module);
    result.insert(last == result.rend() ? result.end() : last.base(),
                  {name, {parameter}, is_frozen, is_shared});
  }
  return result;
}

Unit::Unit(const PlannedUnit& plan, int rank, int size, Shard shard,
           std::optional<at::ScalarType> gather_type)
    : is_frozen_(plan.is_frozen),
      shard_(shard),
      type_(type_of(plan) == at::kFloat ? gather_type.value_or(at::kFloat) : type_of(plan)),
      own_type_(gather_type && !is_frozen_ ? at::kFloat : type_),
      whole_(plan.parameters, type_),
      counts_(slice_lengths(static_cast<std::int64_t>(whole_.count()), size)),
      range_(slice_of(static_cast<std::int64_t>(whole_.count()), rank, size)),
      own_(whole_.within(range_)),
      gradients_(whole_.alike(own_type_)),
      own_gradients_(own_.alike(own_type_)),
      earlier_(own_.alike(own_type_)) {
  if (is_apart()) {
    // Before the parameters are rounded.
    const FlatTensors given(plan.parameters);
    pack(plan.parameters, {&given, 1});
    own_ = own_.alike(own_type_);
    own_.provide();
    own_.flat().copy_(given.within(range_).flat());
  }
  for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
    members_.push_back({.named = plan.parameters[i], .shard = own_.view(i).set_requires_grad(!is_frozen_)});
    whole_.adopt(i, plan.parameters[i].tensor);
  }
  gathered_version_ = version();
  take_values();
  state_ = State::whole;
  release();
}

std::uint64_t Unit::version() const {
  std::uint64_t sum = moves_;
  for (const Member& member : members_) sum += static_cast<std::uint64_t>(member.shard._version());
  return sum;
}

std::vector<std::uint64_t> Unit::counts_of(const Member& member) const {
  std::vector<std::uint64_t> result;
  Slice range;
  for (const std::int64_t count : counts_) {
    range = {range.end(), count};
    const auto part = static_cast<std::size_t>(&member - members_.data());
    result.push_back(static_cast<std::uint64_t>(whole_.overlap(part, range).length));
  }
  return result;
}

bool Unit::is_written(const Member& member) const {
  return member.named.tensor._version() != member.written || !whole_.holds(member.named.tensor);
}

void Unit::require_own() const {
  for (const Member& member : members_) {
    const auto refuse = [&](const char* what) {
      throw InvalidArgumentError("parameter '" + member.named.name + "' " + what, {});
    };
    if (!whole_.holds(member.named.tensor)) {
      refuse(
          "was replaced after ShardedDataParallel was made, which would go on training the one before: load "
          "while whole() is held, and after to() and the like make a new one");
    }
    if (is_apart() && is_written(member))
      refuse("was written to while whole() was not held: its shards do not have the write");
    if (is_frozen_ && member.named.tensor.requires_grad()) {
      refuse(
          "was frozen when ShardedDataParallel was made, and wants a gradient now, which no shard would get: "
          "make a new one");
    }
  }
}

void Unit::take_values() {
  const c10::NoGradGuard no_grad;
  // An optimizer may have moved shards meanwhile: their values are then the newer ones.
  const bool is_moved = !std::exchange(is_written_, false) && gathered_version_ != version();
  const FlatTensors held = whole_.within(range_);
  for (std::size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    const bool is_taken = is_apart() && (!is_moved || is_written(member));
    const std::string problem = problem_of([&] { whole_.require_alike(i, member.named); });
    if (!problem.empty()) throw InvalidArgumentError("parameter " + problem, {});
    whole_.adopt(i, member.named.tensor);
    member.written = member.named.tensor._version();
    if (!is_taken) continue;
    const at::Tensor own = own_.view(i), whole = held.view(i);
    // What is the shard's value, rounded, was not written.
    own.copy_(type_ == own_type_ ? whole : at::where(own.to(type_) == whole, own, whole.to(own_type_)));
  }
}

void Unit::start_gather(Communicator& communicator, const CallOptions& options) {
  if (state_ == State::gathering && gathered_version_ != version()) wait_gather();
  if (state_ == State::gathering || is_current()) return;
  whole_.provide();
  gathered_version_ = version();
  at::Tensor own = own_.flat();
  if (type_ != own_type_) {
    const c10::NoGradGuard no_grad;
    own = whole_.within(range_).flat().copy_(own);
  }
  gather_ = all_gather_async(own, whole_.flat(), communicator, counts_, options);
  state_ = State::gathering;
}

void Unit::wait_gather() {
  if (state_ != State::gathering) return;
  state_ = State::released;  // where it fails
  std::exchange(gather_, {}).order();
  state_ = State::whole;
}

void Unit::release() {
  if (shard_ != Shard::parameters || !whole_.is_provided()) return;
  wait_gather();
  require_own();
  whole_.release();
  state_ = State::released;
}

void Unit::provide() {
  if (whole_.is_provided()) return;
  whole_.provide();
  whole_.flat().view(at::kByte).fill_(0xff);  // NaN
}

void Unit::begin_gradients() {
  if (is_frozen_) return;
  had_gradient_.clear();
  for (const Member& member : members_) had_gradient_.push_back(member.shard.grad().defined());
  earlier_.release();
  const auto adds = [](const Member& member) {
    return member.shard.grad().defined() && member.shard.grad().any().item<bool>();
  };
  if (std::ranges::none_of(members_, adds)) return;
  earlier_.provide();
  earlier_.flat().zero_();
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (had_gradient_[i]) earlier_.view(i).copy_(members_[i].shard.grad());
  }
}

void Unit::collect(std::size_t index) {
  const NamedTensor& named = members_[index].named;
  at::Tensor& gradient = named.tensor.mutable_grad();
  if (gradient.defined() && gradient.layout() != at::kStrided) {
    throw InvalidArgumentError(
        "the gradient of '" + named.name + "' is sparse: it cannot be averaged in shards", {});
  }
  gradients_.provide();
  gradient.defined() ? gradients_.view(index).copy_(gradient) : gradients_.view(index).zero_();
  gradient = at::Tensor();
}

void Unit::provide_own_gradients() {
  if (shard_ == Shard::optimizer_state) own_gradients_ = gradients_.within(range_);
  own_gradients_.provide();
}

void Unit::take_own_gradients() {
  provide_own_gradients();
  if (shard_ == Shard::optimizer_state) return;
  own_gradients_.flat().copy_(gradients_.within(range_).flat());
  gradients_.release();
}

void Unit::start_scatter(Communicator& communicator, const CallOptions& options) {
  provide_own_gradients();
  scatter_ = reduce_scatter_async(gradients_.flat(), own_gradients_.flat(), communicator, ReduceOp::average,
                                  counts_, options);
}

std::chrono::nanoseconds Unit::wait_scatter() {
  TensorWork scatter = std::exchange(scatter_, {});
  scatter.wait();
  if (shard_ != Shard::optimizer_state) gradients_.release();
  return scatter.duration();
}

void Unit::attach_gradients() {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    at::Tensor gradient = own_gradients_.view(i);
    if (earlier_.is_provided()) gradient.add_(earlier_.view(i));
    members_[i].shard.mutable_grad() = std::move(gradient);
  }
  earlier_.release();
}

void Unit::forget(std::size_t member) {
  if (!had_gradient_[member]) members_[member].shard.mutable_grad() = at::Tensor();
}

}  // namespace kolo::train

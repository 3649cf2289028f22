#include "sharded/sharded_step.hpp"

#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "ddp/autograd_run.hpp"
#include "ddp/failure.hpp"
#include "kolo/error.hpp"

namespace kolo::train {
namespace {

constexpr std::size_t kGathersAhead = 2;
// The first forward finds all units whole, and no use of them is seen unless their memory comes and goes.
constexpr std::uint64_t kOrderedAfter = 2;

bool contains(std::span<const std::size_t> units, std::size_t unit) {
  return std::ranges::find(units, unit) != units.end();
}

}  // namespace

ShardedStep::ShardedStep(std::vector<PlannedUnit> plan, Replicator* buffers, const Communicator& communicator,
                         Shard shard)
    : shard_(shard),
      gathers_(Communicator(communicator).split(0)),
      averages_(communicator),
      buffers_(buffers),
      last_used_(plan.size()),
      first_use_([this](std::span<const std::size_t> units) { use(units); }) {
  for (PlannedUnit& planned : plan) {
    is_shared_.push_back(planned.is_shared);
    units_.emplace_back(std::move(planned.parameters), averages_.rank(), averages_.size(), shard);
  }
  order_.resize(units_.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  // Backward runs against the order in which parameters are registered and used, as a rule.
  average_order_.assign(order_.rbegin(), order_.rend());
  for (std::size_t u = 0; u < units_.size(); ++u) {
    watched_.emplace_back(units_[u].watched(), u);
    for (std::size_t m = 0; m < units_[u].members().size(); ++m) parameters_.push_back({u, m, {}});
  }
  watch_gradients();
  if (shard_ == Shard::parameters) first_use_.watch(watched_);
}

ShardedStep::~ShardedStep() {
  for (Parameter& parameter : parameters_) {
    if (parameter.hook != 0) parameter.accumulator->del_post_hook(parameter.hook);
  }
  first_use_.forget_all();
  for (Unit& unit : units_) {
    if (!is_held_) unit.provide();
  }
}

/// A parameter that was loaded has a new accumulator.
void ShardedStep::watch_gradients() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& parameter = parameters_[i];
    const NamedTensor& named = units_[parameter.unit].members()[parameter.member].named;
    const auto accumulator = torch::autograd::impl::grad_accumulator(named.tensor);
    if (accumulator == parameter.accumulator) continue;
    require_unheard(named.name, named.tensor);
    if (parameter.hook != 0) parameter.accumulator->del_post_hook(std::exchange(parameter.hook, 0));
    parameter.accumulator = accumulator;
    parameter.hook = add_gradient_hook(accumulator, *this, i);
  }
}

void ShardedStep::require_sound() {
  if (error_) std::rethrow_exception(error_);
}

void ShardedStep::fail() {
  error_ = tell_others(averages_);
  throw;
}

void ShardedStep::leave(const std::string& reason) noexcept {
  if (!error_) error_ = train::leave(averages_, reason);
}

void ShardedStep::begin_forward() {
  require_sound();
  const std::lock_guard lock(mutex_);
  in_forward_ = true;
  uses_.clear();
}

void ShardedStep::end_forward() {
  require_sound();  // operations cannot throw what a gather did
  const std::lock_guard lock(mutex_);
  in_forward_ = false;
  if (!c10::GradMode::is_enabled()) release_all();
}

void ShardedStep::use(std::span<const std::size_t> units) noexcept {
  const std::lock_guard lock(mutex_);
  if (is_held_) return;
  try {
    if (!error_) {
      shard_ == Shard::parameters ? use_some(units) : use_all_kept(units);
      return;
    }
  } catch (...) {
    error_ = tell_others(averages_);
  }
  // The operation runs all the same; forward or backward throws the error after it.
  for (const std::size_t unit : units) units_[unit].provide();
}

/// All memory stays; after a step all units are gathered anew. Gathers that are under way together slow each
/// other down, and the first one is needed first: so a few follow each use. They start in one order on all
/// ranks, whatever units a rank uses.
void ShardedStep::use_all_kept(std::span<const std::size_t> units) {
  if (!is_stale_) return;
  std::size_t end = 0;
  for (const std::size_t unit : units) {
    note_use(unit);
    const auto place = static_cast<std::size_t>(std::ranges::find(order_, unit) - order_.begin());
    end = std::max(end, place + 1);
  }
  start_gathers(end);
  for (const std::size_t unit : units) wait_gather(unit);
  start_gathers(end + kGathersAhead);
  is_stale_ = !std::ranges::all_of(units_, &Unit::is_whole);
  if (!is_stale_) first_use_.forget_all();  // each operation would look at its inputs in vain
}

/// Of the first so many units, in the order of use.
void ShardedStep::start_gathers(std::size_t end) {
  for (const std::size_t unit : std::span(order_).first(std::min(end, order_.size())))
    units_[unit].start_gather(gathers_);
}

void ShardedStep::use_some(std::span<const std::size_t> units) {
  const auto is_here = [&](std::size_t unit) {
    return units_[unit].is_whole() && (unit == last_used_ || is_shared_[unit]);
  };
  if (std::ranges::all_of(units, is_here)) return;
  for (const std::size_t unit : units) units_[unit].start_gather(gathers_);
  for (const std::size_t unit : units) wait_gather(unit);
  const auto current = std::ranges::find_if(units, [&](std::size_t unit) { return !is_shared_[unit]; });
  if (current == units.end()) return;
  for (std::size_t other = 0; other < units_.size(); ++other) {
    if (!is_shared_[other] && !contains(units, other)) units_[other].release();
  }
  note_use(*current);
  prefetch(*current);
}

void ShardedStep::note_use(std::size_t unit) {
  last_used_ = unit;
  if (in_forward_ && !contains(uses_, unit)) uses_.push_back(unit);
}

/// Starts to gather what is used next: in forward what came next the last time, in backward what came before.
void ShardedStep::prefetch(std::size_t unit) {
  const auto place = std::ranges::find(order_, unit);
  const bool has_next = in_forward_ ? place + 1 != order_.end() : place != order_.begin();
  if (!has_next) return;
  const std::size_t next = in_forward_ ? *(place + 1) : *(place - 1);
  units_[next].start_gather(gathers_);
}

void ShardedStep::wait_gather(std::size_t unit) {
  if (!units_[unit].is_gathering()) return;
  const auto begin = Clock::now();
  units_[unit].wait_gather();
  exposed_ += Clock::now() - begin;
}

void ShardedStep::release_all() {
  for (Unit& unit : units_) unit.release();
  last_used_ = units_.size();
}

void ShardedStep::make_whole() {
  require_sound();
  const std::lock_guard lock(mutex_);
  try {
    start_gathers(order_.size());
    for (const std::size_t unit : order_) wait_gather(unit);
  } catch (...) {
    fail();
  }
  is_stale_ = false;
  is_held_ = true;
}

void ShardedStep::leave_whole() {
  const at::DisableRecordFunctionGuard unobserved;  // of the lock's holder
  const std::lock_guard lock(mutex_);
  is_held_ = false;
  for (Unit& unit : units_) unit.take_values();
  watch_gradients();
  release_all();
}

void ShardedStep::on_gradient(std::size_t index) {
  require_sound();
  const c10::NoGradGuard no_grad;
  try {
    if (!in_backward_) begin_backward();
    if (!std::exchange(end_is_queued_, true)) queue_end(*this);
    const auto& [unit, member, accumulator, hook] = parameters_[index];
    units_[unit].collect(member);
    if (units_[unit].is_complete()) ready_order_.push_back(unit);
    start_complete();
  } catch (...) {
    fail();
  }
}

void ShardedStep::begin_backward() {
  in_backward_ = true;
  next_started_ = next_finished_ = 0;
  ready_order_.clear();
  for (Unit& unit : units_) unit.begin_gradients();
}

/// In one order on all ranks, never in that of completion.
void ShardedStep::start_complete() {
  while (next_started_ < units_.size() && units_[average_order_[next_started_]].is_complete()) {
    if (next_finished_ < next_started_) finish_oldest();  // more under way are more gradients in memory
    const std::size_t unit = average_order_[next_started_];
    if (next_started_ == 0) first_start_ = Clock::now();
    units_[unit].start_scatter(averages_);
    ++next_started_;
    // Its backward is over. Should an operation use it again, it is gathered again.
    const std::lock_guard lock(mutex_);
    if (!is_shared_[unit] && !is_held_) units_[unit].release();
  }
}

void ShardedStep::finish_oldest() {
  const auto begin = Clock::now();
  units_[average_order_[next_finished_]].finish_scatter();
  ++next_finished_;
  exposed_ += Clock::now() - begin;
}

void ShardedStep::end_run() {
  require_sound();
  if (is_nested_run()) return;
  const c10::NoGradGuard no_grad;
  try {
    finish();
  } catch (...) {
    fail();
  }
}

void ShardedStep::leave_run(bool is_over) noexcept {
  end_is_queued_ = false;
  if (!in_backward_ || error_) return;
  if (!is_over) {
    leave("an exception broke off its backward(), so the ranks' gradients no longer belong together");
    return;
  }
  try {
    // The run was nested. That it was called from is current again, and has the rest of the gradients.
    queue_end(*this);
    end_is_queued_ = true;
  } catch (const std::exception&) {
    if (!error_) error_ = std::current_exception();
  }
}

/// Ranks may have used units and seen gradients in different orders; they must all
/// follow one.
void ShardedStep::follow_rank_0() {
  for (auto [seen, order] : {std::pair(&uses_, &order_), std::pair(&ready_order_, &average_order_)}) {
    std::vector<std::uint64_t> next(seen->begin(), seen->end());
    for (const std::size_t unit : *order) {
      if (!contains(*seen, unit)) next.push_back(unit);
    }
    averages_.broadcast(Buffer(next), 0);
    order->assign(next.begin(), next.end());
  }
}

void ShardedStep::finish() {
  for (Unit& unit : units_) unit.complete();
  start_complete();
  if (buffers_ != nullptr) buffers_->start(averages_, 0);
  while (next_finished_ < units_.size()) finish_oldest();
  if (buffers_ != nullptr) buffers_->finish();
  in_backward_ = false;

  const std::lock_guard lock(mutex_);
  if (!is_held_) {
    release_all();
    // Ranks that used other units have started them.
    if (is_stale_ && shard_ != Shard::parameters) start_gathers(order_.size());
    for (Unit& unit : units_) {
      unit.wait_gather();  // of a unit that was not used, on this rank
      unit.set_stale();
    }
    is_stale_ = true;
    if (shard_ != Shard::parameters) first_use_.watch(watched_);
  }
  if (++steps_ == kOrderedAfter) follow_rank_0();
  CommunicationStatistics step;
  step.steps = 1;
  step.all_reduces = units_.size();
  for (const Unit& unit : units_) step.bytes += unit.bytes();
  step.exposed = std::exchange(exposed_, std::chrono::nanoseconds(0));
  step.hidden = std::max(Clock::now() - first_start_ - step.exposed, std::chrono::nanoseconds(0));
  total_ += step;
}

}  // namespace kolo::train

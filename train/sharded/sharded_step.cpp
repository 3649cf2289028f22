#include "sharded/sharded_step.hpp"

#include <ATen/record_function.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "kolo/error.hpp"
#include "libtorch/gradient_listener.hpp"
#include "ranks/agreement.hpp"
#include "ranks/span.hpp"

namespace kolo::train {
namespace {

constexpr std::size_t kGathersAhead = 2;
// The first forward finds all units whole, and no use of them is seen unless their memory comes and goes.
constexpr std::uint64_t kOrderedAfter = 2;

bool contains(std::span<const std::size_t> units, std::size_t unit) {
  return std::ranges::find(units, unit) != units.end();
}

}  // namespace

ShardedStep::ShardedStep(const std::vector<PlannedUnit>& plan, const Communicator& communicator,
                         const ShardedDataParallelOptions& options)
    : shard_(options.shard),
      gathers_(Communicator(communicator).split(0)),
      averages_(communicator),
      last_used_(plan.size()),
      first_use_(
          [this](std::span<const std::size_t> watched, FirstUse::Access access) { use(watched, access); }) {
  for (const PlannedUnit& planned : plan) {
    is_shared_.push_back(planned.is_shared);
    const auto first = std::ranges::find(plan, planned.name, &PlannedUnit::name);
    modules_.push_back(static_cast<std::size_t>(first - plan.begin()));
    names_.push_back(planned.name.empty() ? "the model's own unit" : "unit '" + planned.name + '\'');
    units_.emplace_back(planned, averages_.rank(), averages_.size(), shard_, options.gather_type);
  }
  order_.resize(units_.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  for (std::size_t u = 0; u < units_.size(); ++u) {
    watched_.emplace_back(units_[u].watched(), u);
    for (const Unit::Member& member : units_[u].members())
      watched_.emplace_back(member.shard, units_.size() + u);
  }
  first_use_.watch(watched_);
}

ShardedStep::~ShardedStep() {
  first_use_.forget_all();
  for (Unit& unit : units_) {
    if (held_ == 0) unit.provide();
  }
}

void ShardedStep::require_sound() const {
  if (error_) std::rethrow_exception(error_);
}

void ShardedStep::fail() {
  error_ = tell_others(averages_);
  throw;
}

/// A rank must not go on to train parameters that no shard is of.
void ShardedStep::require_own() const {
  for (const Unit& unit : units_) unit.require_own();
}

void ShardedStep::begin_forward() {
  require_sound();
  const std::lock_guard lock(mutex_);
  if (held_ == 0) {
    guard([&] { require_own(); });
    note_moves();
    has_gradients_ = false;
  }
  ++passes_;
  // Ranks in the backward of the last forward learn of it: they wait for averages, and this rank for gathers.
  if (std::exchange(is_awaited_, false) || in_forward_) {
    guard([&] {
      turn_.wait();
      turn_ = averages_.barrier_async({.label = "the forward of pass", .label_number = passes_});
    });
  }
  in_forward_ = true;
  uses_.clear();
}

/// An optimizer may write through pointers, or to data(), which no version counts.
void ShardedStep::note_moves() {
  if (!has_gradients_) return;
  for (Unit& unit : units_) unit.note_move();
}

/// Shards may move from here on: no gather is under way any more, and all units are watched.
void ShardedStep::end_forward() {
  require_sound();  // operations cannot throw what a gather did
  const std::lock_guard lock(mutex_);
  in_forward_ = false;
  is_awaited_ = c10::GradMode::is_enabled();
  guard([&] {
    // Ranks that used other units have started them.
    if (shard_ != Shard::parameters && held_ == 0) start_gathers(order_.size());
    for (const std::size_t unit : order_) wait_gather(unit);
    if (!c10::GradMode::is_enabled() && held_ == 0) release_all();
  });
  first_use_.watch(watched_);
}

void ShardedStep::use(std::span<const std::size_t> watched, FirstUse::Access access) noexcept {
  const std::lock_guard lock(mutex_);
  std::vector<std::size_t> units;
  for (const std::size_t index : watched) {
    if (index < units_.size()) {
      units.push_back(index);
      if (held_ > 0 && access != FirstUse::Access::read) units_[index].note_write();
    } else if (access == FirstUse::Access::write) {
      units_[index - units_.size()].note_move();
    }
  }
  if (held_ > 0 || units.empty()) return;
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
  std::size_t end = in_forward_ ? 0 : order_.size();
  for (const std::size_t unit : units) {
    note_use(unit);
    const auto place = static_cast<std::size_t>(std::ranges::find(order_, unit) - order_.begin());
    end = std::max(end, place + 1);
  }
  start_gathers(end);
  if (!in_forward_) {
    for (const std::size_t unit : order_) wait_gather(unit);
    return;
  }
  for (const std::size_t unit : units) wait_gather(unit);
  start_gathers(end + kGathersAhead);
  // Each operation would look at its inputs in vain.
  if (std::ranges::all_of(units_, &Unit::is_current)) first_use_.forget_all();
}

/// Of the first so many units, in the order of use.
void ShardedStep::start_gathers(std::size_t end) {
  for (const std::size_t unit : std::span(order_).first(std::min(end, order_.size())))
    units_[unit].start_gather(gathers_, call_of(unit));
}

CallOptions ShardedStep::call_of(std::size_t unit) const {
  return {.label = names_[unit] + " in pass", .label_number = passes_};
}

void ShardedStep::use_some(std::span<const std::size_t> units) {
  const auto is_here = [&](std::size_t unit) {
    return units_[unit].is_current() && (modules_[unit] == last_used_ || is_shared_[unit]);
  };
  if (std::ranges::all_of(units, is_here)) return;
  const std::vector<std::size_t> all = with_siblings(units);
  for (const std::size_t unit : all) units_[unit].start_gather(gathers_, call_of(unit));
  for (const std::size_t unit : all) wait_gather(unit);
  const auto current = std::ranges::find_if(units, [&](std::size_t unit) { return !is_shared_[unit]; });
  if (current == units.end()) return;
  for (std::size_t other = 0; other < units_.size(); ++other) {
    if (!is_shared_[other] && !contains(all, other)) units_[other].release();
  }
  for (const std::size_t unit : with_siblings(std::span(&*current, 1))) note_use(unit);
  prefetch(*current);
}

/// Trained and frozen parameters of a submodule, and those of each type, are units that come and go together.
std::vector<std::size_t> ShardedStep::with_siblings(std::span<const std::size_t> units) const {
  std::vector<std::size_t> all;
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    const auto is_sibling = [&](std::size_t other) { return modules_[other] == modules_[unit]; };
    if (std::ranges::any_of(units, is_sibling)) all.push_back(unit);
  }
  return all;
}

void ShardedStep::note_use(std::size_t unit) {
  last_used_ = modules_[unit];
  if (in_forward_ && !contains(uses_, unit)) uses_.push_back(unit);
}

/// Starts to gather what is used next: in forward what came next the last time, in backward what came before.
/// Between them a step may move the shards meanwhile.
void ShardedStep::prefetch(std::size_t unit) {
  if (!in_forward_ && !in_backward_) return;
  const auto is_other = [&](std::size_t other) { return modules_[other] != modules_[unit]; };
  const auto place = std::ranges::find(order_, unit);
  const auto after = std::find_if(place, order_.end(), is_other);
  const auto before = std::find_if(std::reverse_iterator(place), order_.rend(), is_other);
  if (in_forward_ ? after == order_.end() : before == order_.rend()) return;
  const std::size_t next = in_forward_ ? *after : *before;
  for (const std::size_t other : with_siblings(std::span(&next, 1)))
    units_[other].start_gather(gathers_, call_of(other));
}

void ShardedStep::wait_gather(std::size_t unit) {
  if (units_[unit].state() != Unit::State::gathering) return;
  const Span span(gathers_, "wait for unit", static_cast<int>(unit));
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
  if (held_++ > 0) return;
  try {
    require_own();
    note_moves();
    start_gathers(order_.size());
    for (const std::size_t unit : order_) wait_gather(unit);
  } catch (...) {
    --held_;
    fail();
  }
}

void ShardedStep::leave_whole() noexcept {
  const at::DisableRecordFunctionGuard unobserved;  // of the lock's holder
  const std::lock_guard lock(mutex_);
  if (--held_ > 0) return;
  try {
    for (Unit& unit : units_) unit.take_values();
    release_all();
  } catch (...) {
    if (!error_) error_ = tell_others(averages_);
  }
}

void ShardedStep::begin_backward() {
  if (held_ == 0) require_own();
  in_backward_ = true;
  if (shard_ != Shard::parameters) first_use_.forget_all();  // no shard moves before end_backward()
}

void ShardedStep::release_used(std::size_t unit) {
  const std::lock_guard lock(mutex_);
  if (!is_shared_[unit] && held_ == 0) units_[unit].release();
}

void ShardedStep::end_backward(bool has_averaged) {
  const std::lock_guard lock(mutex_);
  in_backward_ = is_awaited_ = false;
  has_gradients_ = has_gradients_ || has_averaged;
  if (held_ == 0) release_all();
  first_use_.watch(watched_);
  if (++backwards_ == kOrderedAfter) follow_rank_0();
}

/// Ranks may have used units in different orders; they must all follow one.
void ShardedStep::follow_rank_0() {
  std::vector<std::uint64_t> next(uses_.begin(), uses_.end());
  for (const std::size_t unit : order_) {
    if (!contains(uses_, unit)) next.push_back(unit);
  }
  averages_.broadcast(Buffer(next), 0);
  order_.assign(next.begin(), next.end());
}

}  // namespace kolo::train

#include "sharded/shard_averaging.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <exception>
#include <numeric>
#include <utility>

namespace kolo::train {

ShardAveraging::ShardAveraging(ShardedStep& step, const Communicator& communicator, Communicator data,
                               std::shared_ptr<GradientHook> hook)
    : Averaging(communicator), step_of_(step), data_(std::move(data)), hook_(std::move(hook)) {
  if (hook_) thread_.emplace(communicator_.split(0));
  std::vector<std::size_t> trained;
  std::size_t count = 0;
  for (std::size_t u = 0; u < step_of_.units().size(); ++u) {
    const Unit& unit = step_of_.units()[u];
    firsts_.push_back(count);
    if (unit.is_frozen()) continue;
    trained.push_back(u);
    count += unit.members().size();
  }
  std::ranges::reverse(trained);  // as backward runs, as a rule
  set_order(std::move(trained));
}

std::vector<NamedTensor> ShardAveraging::parameters() const {
  std::vector<NamedTensor> parameters;
  for (const Unit& unit : step_of_.units()) {
    if (unit.is_frozen()) continue;
    for (const Unit::Member& member : unit.members()) parameters.push_back(member.named);
  }
  return parameters;
}

void ShardAveraging::set_order(std::vector<std::size_t> units) {
  order_ = std::move(units);
  std::vector<std::vector<std::size_t>> members;
  for (std::size_t b = 0; b < order_.size(); ++b) {
    auto& bucket = members.emplace_back(unit_of(b).members().size());
    std::iota(bucket.begin(), bucket.end(), firsts_[order_[b]]);
  }
  set_members(std::move(members));
}

/// A unit is complete with the last of its gradients.
void ShardAveraging::lay_out(std::span<const std::size_t> order, std::span<const std::size_t>) {
  std::vector<std::size_t> position(order.size()), units = order_;
  for (std::size_t i = 0; i < order.size(); ++i) position[order[i]] = i;
  std::ranges::sort(units, {}, [&](std::size_t unit) {
    return std::ranges::max(
        std::span(position).subspan(firsts_[unit], step_of_.units()[unit].members().size()));
  });
  set_order(std::move(units));
}

void ShardAveraging::prepare() {
  if (thread_) thread_->communicator().set_label(kLabel, step_);
  started_ = scattered_ = 0;
  over_data_.clear();
  spans_.assign(order_.size(), {});
  for (Unit& unit : step_of_.units()) unit.begin_gradients();
}

void ShardAveraging::take(std::size_t bucket, std::size_t slot, const at::Tensor&) {
  step_of_.require_sound();  // an operation cannot throw what a gather did
  unit_of(bucket).collect(slot);
}

void ShardAveraging::start(std::size_t bucket) {
  const auto waiting = Clock::now();
  if (scattered_ < started_) finish_oldest();
  const auto now = Clock::now();
  waited_ += now - waiting;
  spans_[bucket] = {now, now, unit_of(bucket).gradient_bytes()};
  Unit& unit = unit_of(bucket);
  if (is_hooked(unit)) {
    job_.average = [this, &unit, bucket](Communicator& communicator) {
      unit.gradients().on_host([&](Buffer all) {
        hook_->scatter({.gradients = {static_cast<float*>(all.data), all.count},
                        .parts = unit.gradients().parts(),
                        .index = bucket,
                        .loss_scale = loss_scale_},
                       unit.counts(), communicator);
      });
      return true;
    };
    job_.device = unit.watched().device();
    thread_->start(job_);
  } else {
    unit.start_scatter(communicator_, step_of_.call_of(order_[bucket]));
  }
  ++started_;
  step_of_.release_used(order_[bucket]);
}

void ShardAveraging::finish_oldest() {
  const std::size_t bucket = scattered_++;
  if (is_hooked(unit_of(bucket))) {
    thread_->wait();
    unit_of(bucket).take_own_gradients();
    spans_[bucket].ended = job_.ended;
  } else {
    spans_[bucket].ended = spans_[bucket].started + unit_of(bucket).wait_scatter();
  }
  if (data_.valid()) {
    over_data_.push_back(all_reduce_async(unit_of(bucket).own_gradients(), data_, ReduceOp::average,
                                          step_of_.call_of(order_[bucket])));
  }
}

void ShardAveraging::wait() {
  while (scattered_ < started_) finish_oldest();
  wait_all(over_data_);
  if (hook_) agree_on_finite();
  for (std::size_t b = 0; b < order_.size(); ++b) unit_of(b).attach_gradients();
}

/// A hook forgets a step on all ranks or on none.
void ShardAveraging::agree_on_finite() {
  std::uint8_t finite = 1;
  for (std::size_t b = 0; b < order_.size(); ++b)
    finite = finite != 0 && unit_of(b).own_gradients_are_finite() ? 1 : 0;
  are_finite_ = communicator_.all_reduce(finite, ReduceOp::min) != 0;
}

void ShardAveraging::share_use(std::span<std::uint8_t> used) {
  if (data_.valid()) data_.all_reduce(Buffer(used), ReduceOp::max);
}

void ShardAveraging::settle() noexcept {
  if (thread_) thread_->settle();
  for (Unit& unit : step_of_.units()) unit.settle();
  over_data_.clear();  // waits
}

}  // namespace kolo::train

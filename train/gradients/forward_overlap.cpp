#include "gradients/forward_overlap.hpp"

#include <ATen/record_function.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <unordered_set>
#include <utility>

#include "gradients/slice_plan.hpp"
#include "gradients/times.hpp"
#include "kolo/error.hpp"
#include "kolo/timeline.hpp"

namespace kolo::train {
namespace {

/// Steps whose times the plan is made of: the last ones.
constexpr std::size_t kRemembered = 5;
/// A share of backward: how much later than planned a bucket may be without holding up other slices.
constexpr double kMargin = 0.01;

/// The first steps are slower than those that follow, and times may change slowly later on.
bool is_planning_step(std::uint64_t step) {
  return step == 2 || step == 8 || (step > 0 && step % 64 == 0);
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const DistributedDataParallelOptions& options,
                                                        const std::vector<at::Tensor>& parameters) {
  auto optimizer = options.overlap_forward(parameters);
  if (!optimizer) throw InvalidArgumentError("overlap_forward gave no optimizer", {});
  std::unordered_set<const c10::TensorImpl*> wanted, given;
  for (const at::Tensor& parameter : parameters) wanted.insert(parameter.unsafeGetTensorImpl());
  for (const auto& group : optimizer->param_groups()) {
    for (const at::Tensor& parameter : group.params()) given.insert(parameter.unsafeGetTensorImpl());
  }
  if (wanted != given)
    throw InvalidArgumentError(
        "overlap_forward gave an optimizer of other parameters than it was called with", {});
  return optimizer;
}

std::vector<Buffer> memory_of(std::span<const Bucket> buckets) {
  std::vector<Buffer> memory;
  for (const Bucket& bucket : buckets) memory.push_back(bucket.buffer());
  return memory;
}

}  // namespace

ForwardOverlap::ForwardOverlap(std::span<const Bucket> buckets, std::span<const NamedTensor> parameters,
                               Communicator communicator, const DistributedDataParallelOptions& options)
    : timeline_(options.timeline),
      thread_(std::move(communicator), memory_of(buckets), options.wire),
      first_use_([this](std::span<const std::size_t> used, FirstUse::Access) {
        for (const std::size_t bucket : used) use(bucket);
      }) {
  for (const Bucket& bucket : buckets) {
    Entry entry{.bucket = &bucket, .parameters = {}, .optimizer = {}};
    for (const Bucket::Slot& slot : bucket.slots())
      entry.parameters.push_back(parameters[slot.parameter].tensor);
    entry.optimizer = make_optimizer(options, entry.parameters);
    entry.use = buckets.size() - entries_.size();  // forward uses last what backward has first
    entries_.push_back(std::move(entry));
  }
  plan_ = plan();
}

ForwardOverlap::~ForwardOverlap() = default;

void ForwardOverlap::begin(Communicator& communicator, int root) {
  if (is_planning_step(steps_++)) {
    if (communicator.rank() == root) plan_ = plan();
    communicator.broadcast(Buffer(plan_), root);
  }
  thread_.begin(plan_);
  begin_ = Clock::now();
  exposed_ = {};
}

std::vector<std::uint64_t> ForwardOverlap::plan() const {
  std::vector<SlicedBucket> buckets;
  double last = 0;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const std::uint64_t slices = thread_.slices_of(i);
    const double seconds = seconds_a_byte_ * static_cast<double>(entries_[i].bucket->bytes());
    buckets.push_back(
        {slices, seconds / static_cast<double>(slices), median_of(entries_[i].ready), entries_[i].use});
    last = std::max(last, buckets.back().ready);
  }
  // Nothing is known before the first step: as if they were ready one after another, and sent at once.
  if (seconds_a_byte_ == 0) {
    for (std::size_t i = 0; i < buckets.size(); ++i) buckets[i].ready = static_cast<double>(i);
  }
  return plan_slices(buckets, seconds_a_byte_ == 0 ? 0 : kMargin * last);
}

void ForwardOverlap::start(std::size_t bucket) {
  std::vector<double>& ready = entries_[bucket].ready;
  if (ready.size() == kRemembered) ready.erase(ready.begin());
  ready.push_back(seconds_of(Clock::now() - begin_));
  thread_.start(bucket);
}

void ForwardOverlap::end() {
  std::vector<std::pair<at::Tensor, std::size_t>> watched;
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    for (at::Tensor& parameter : entries_[i].parameters) {
      // So an optimizer of the caller's own finds nothing to do, and zero_grad() has nothing to clear.
      parameter.mutable_grad() = at::Tensor();
      watched.emplace_back(parameter, i);
    }
    entries_[i].is_under_way = true;
  }
  under_way_ = entries_.size();
  uses_.clear();
  is_drained_ = false;
  end_ = Clock::now();
  first_use_.watch(watched);
}

void ForwardOverlap::use(std::size_t bucket) noexcept {
  const std::lock_guard lock(mutex_);
  if (error_ || !entries_[bucket].is_under_way) return;
  try {
    uses_.push_back(bucket);
    make_step(bucket);
  } catch (...) {
    error_ = std::current_exception();
  }
}

void ForwardOverlap::finish() {
  const std::lock_guard lock(mutex_);
  const at::DisableRecordFunctionGuard unobserved;
  for (std::size_t i = 0; i < entries_.size() && !error_; ++i) {
    if (!entries_[i].is_under_way) continue;
    is_drained_ = true;
    try {
      make_step(i);
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  if (error_) std::rethrow_exception(error_);
}

void ForwardOverlap::require_sound() {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
}

void ForwardOverlap::make_step(std::size_t index) {
  Entry& entry = entries_[index];
  const auto waiting = Clock::now();
  thread_.wait(index);
  const auto done = Clock::now();
  exposed_ += done - waiting;
  if (timeline_ && done - waiting > std::chrono::microseconds(10))
    timeline_->span("wait for bucket " + std::to_string(index), "compute", waiting, done);

  const at::ThreadLocalStateGuard state(calm_);
  const at::DisableRecordFunctionGuard unobserved;
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> other;  // a backward without synchronization may have begun new ones
  const auto& slots = entry.bucket->slots();
  for (std::size_t s = 0; s < slots.size(); ++s)
    other.push_back(std::exchange(entry.parameters[s].mutable_grad(), slots[s].view));
  entry.optimizer->step();
  for (std::size_t s = 0; s < slots.size(); ++s) entry.parameters[s].mutable_grad() = std::move(other[s]);
  for (const auto& change : std::exchange(entry.changes, {})) change(*entry.optimizer);
  entry.is_under_way = false;
  first_use_.forget(index);
  if (--under_way_ == 0) leave_step();
}

/// All averages of the step are there.
void ForwardOverlap::leave_step() {
  if (!is_drained_) {
    for (std::size_t place = 0; place < uses_.size(); ++place) entries_[uses_[place]].use = place;
  }
  CommunicationStatistics step;
  step.steps = 1;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    step.all_reduces += thread_.slices_of(i);
    step.bytes += entries_[i].bucket->bytes();
    if (!timeline_) continue;
    const SliceThread::Times times = thread_.times(i);
    timeline_->span("bucket " + std::to_string(i), "buckets", times.started, times.ended,
                    "\"bytes\":" + std::to_string(entries_[i].bucket->bytes()));
  }
  const auto busy = thread_.busy();
  seconds_a_byte_ = seconds_of(busy) / static_cast<double>(step.bytes);
  step.exposed = exposed_;
  step.hidden = std::max(busy - exposed_, std::chrono::nanoseconds(0));
  statistics_ = step;
}

void ForwardOverlap::change_optimizers(const std::function<void(torch::optim::Optimizer&)>& change) {
  const std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.is_under_way) {
      entry.changes.push_back(change);
    } else {
      change(*entry.optimizer);
    }
  }
}

std::vector<torch::optim::Optimizer*> ForwardOverlap::optimizers() const {
  std::vector<torch::optim::Optimizer*> result;
  for (const Entry& entry : entries_) result.push_back(entry.optimizer.get());
  return result;
}

std::optional<CommunicationStatistics> ForwardOverlap::take_statistics() {
  const std::lock_guard lock(mutex_);
  return std::exchange(statistics_, {});
}

}  // namespace kolo::train

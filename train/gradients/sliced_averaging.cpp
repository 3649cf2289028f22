#include "gradients/sliced_averaging.hpp"

#include <ATen/record_function.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <unordered_set>
#include <utility>

#include "gradients/times.hpp"
#include "kolo/error.hpp"
#include "kolo/timeline.hpp"
#include "kolo/train/averages.hpp"
#include "libtorch/device.hpp"

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

SlicedAveraging::SlicedAveraging(std::vector<NamedTensor> parameters, std::vector<std::size_t> own,
                                 Communicator communicator, const DistributedDataParallelOptions& options)
    : WholeAveraging(std::move(parameters), std::move(own), communicator, options),
      timeline_(options.timeline),
      slices_(communicator.split(0)),
      first_use_([this](std::span<const std::size_t> used, FirstUse::Access) {
        for (const std::size_t bucket : used) use(bucket);
      }) {
  agree(communicator, "DistributedDataParallel", "", [&] {  // it calls a function of the program's
    for (const auto& bucket : members()) {
      Entry entry{.parameters = {}};
      for (const std::size_t parameter : bucket) entry.parameters.push_back(parameters_[parameter].tensor);
      entry.optimizer = make_optimizer(options, entry.parameters);
      entry.use = buckets_.size() - entries_.size();  // forward uses last what backward has first
      entries_.push_back(std::move(entry));
    }
  });
  thread_ = std::make_unique<SliceThread>(slices_, memory_of(buckets_), options.wire);
  plan_ = plan();
}

void SlicedAveraging::prepare() {
  slices_.set_label(kLabel, step_);
  if (is_planning_step(steps_++)) {
    if (communicator_.rank() == share_.root) plan_ = plan();
    communicator_.broadcast(Buffer(plan_), share_.root);
  }
  thread_->begin(plan_);
  begin_ = Clock::now();
  exposed_ = {};
}

std::vector<std::uint64_t> SlicedAveraging::plan() const {
  std::vector<SlicedBucket> buckets;
  double last = 0;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const std::uint64_t slices = thread_->slices_of(i);
    const double seconds = seconds_a_byte_ * static_cast<double>(buckets_[i].bytes());
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

void SlicedAveraging::start(std::size_t bucket) {
  scale(bucket);
  std::vector<double>& ready = entries_[bucket].ready;
  if (ready.size() == kRemembered) ready.erase(ready.begin());
  ready.push_back(seconds_of(Clock::now() - begin_));
  thread_->start(bucket, on_current_stream(buckets_[bucket].device(), {}).stream);
}

void SlicedAveraging::end() {
  std::vector<std::pair<at::Tensor, std::size_t>> watched;
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    for (const at::Tensor& parameter : entries_[i].parameters) watched.emplace_back(parameter, i);
    entries_[i].is_under_way = true;
  }
  under_way_ = entries_.size();
  uses_.clear();
  is_drained_ = false;
  end_ = Clock::now();
  first_use_.watch(watched);
}

void SlicedAveraging::use(std::size_t bucket) noexcept {
  const std::lock_guard lock(mutex_);
  if (error_ || !entries_[bucket].is_under_way) return;
  try {
    uses_.push_back(bucket);
    make_step(bucket);
  } catch (...) {
    error_ = std::current_exception();
  }
}

void SlicedAveraging::finish_step() {
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

void SlicedAveraging::settle() noexcept {
  const std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) entry.is_under_way = false;
  first_use_.forget_all();
  thread_.reset();
}

void SlicedAveraging::require_sound() {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
}

void SlicedAveraging::make_step(std::size_t index) {
  Entry& entry = entries_[index];
  const auto waiting = Clock::now();
  thread_->wait(index);
  const auto done = Clock::now();
  exposed_ += done - waiting;
  if (timeline_ && done - waiting > std::chrono::microseconds(10))
    timeline_->span("wait for bucket " + std::to_string(index), "compute", waiting, done);

  const at::ThreadLocalStateGuard state(calm_);
  const at::DisableRecordFunctionGuard unobserved;
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> other;  // a backward without synchronization may have begun new ones
  const auto& views = buckets_[index].views();
  for (std::size_t s = 0; s < views.size(); ++s)
    other.push_back(std::exchange(entry.parameters[s].mutable_grad(), views[s]));
  entry.optimizer->step();
  for (std::size_t s = 0; s < views.size(); ++s) entry.parameters[s].mutable_grad() = std::move(other[s]);
  for (const auto& change : std::exchange(entry.changes, {})) change(*entry.optimizer);
  entry.is_under_way = false;
  first_use_.forget(index);
  if (--under_way_ == 0) leave_step();
}

/// All averages of the step are there.
void SlicedAveraging::leave_step() {
  if (!is_drained_) {
    for (std::size_t place = 0; place < uses_.size(); ++place) entries_[uses_[place]].use = place;
  }
  CommunicationStatistics step;
  step.steps = 1;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    step.all_reduces += thread_->slices_of(i);
    step.bytes += buckets_[i].bytes();
    if (!timeline_) continue;
    const SliceThread::Times times = thread_->times(i);
    timeline_->span("bucket " + std::to_string(i), "buckets", times.started, times.ended,
                    "\"bytes\":" + std::to_string(buckets_[i].bytes()));
  }
  const auto busy = thread_->busy();
  seconds_a_byte_ = seconds_of(busy) / static_cast<double>(step.bytes);
  step.exposed = exposed_;
  step.hidden = std::max(busy - exposed_, std::chrono::nanoseconds(0));
  statistics_ = step;
}

void SlicedAveraging::change_optimizers(const std::function<void(torch::optim::Optimizer&)>& change) {
  const std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.is_under_way) {
      entry.changes.push_back(change);
    } else {
      change(*entry.optimizer);
    }
  }
}

std::vector<torch::optim::Optimizer*> SlicedAveraging::optimizers() const {
  std::vector<torch::optim::Optimizer*> result;
  for (const Entry& entry : entries_) result.push_back(entry.optimizer.get());
  return result;
}

std::optional<CommunicationStatistics> SlicedAveraging::take_statistics() {
  const std::lock_guard lock(mutex_);
  return std::exchange(statistics_, {});
}

}  // namespace kolo::train

#include "gradients/slice_thread.hpp"

#include <algorithm>
#include <deque>
#include <utility>

namespace kolo::train {
namespace {

/// The second one hides the latency between two slices; a third would only be in the way of what is urgent.
constexpr std::size_t kSlicesUnderWay = 2;
/// How soon a bucket that gets ready is noticed while a slice is waited for.
constexpr auto kLookAgain = std::chrono::milliseconds(1);

/// Slices of a bucket are equally long, but for the last, and begin at full blocks of every wire format.
constexpr std::uint64_t kSliceElements = 1024;

std::uint64_t slice_elements(const Buffer& memory) {
  const std::uint64_t most = kSliceBytes / size_of(memory.dtype);
  const std::uint64_t slices = std::max<std::uint64_t>(1, (memory.count + most - 1) / most);
  const std::uint64_t elements = (memory.count + slices - 1) / slices;
  return std::clamp((elements + kSliceElements - 1) / kSliceElements * kSliceElements, kSliceElements, most);
}

}  // namespace

std::vector<std::uint64_t> plan_slices(std::span<const SlicedBucket> buckets, double margin) {
  std::vector<std::uint64_t> left;
  for (const SlicedBucket& bucket : buckets) left.push_back(bucket.slices);
  std::vector<std::uint64_t> plan;
  double now = 0;
  while (true) {
    std::optional<std::size_t> soonest_used, first_ready;
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      if (left[i] == 0) continue;
      if (!first_ready || buckets[i].ready < buckets[*first_ready].ready) first_ready = i;
      if (buckets[i].ready + margin > now) continue;
      if (!soonest_used || buckets[i].use < buckets[*soonest_used].use) soonest_used = i;
    }
    if (!first_ready) return plan;
    const std::size_t next = soonest_used.value_or(*first_ready);
    now = std::max(now, buckets[next].ready) + buckets[next].slice_seconds;
    plan.push_back(next);
    --left[next];
  }
}

SliceThread::SliceThread(Communicator communicator, std::span<const Buffer> buckets, std::optional<Wire> wire)
    : communicator_(std::move(communicator)), wire_(wire) {
  for (const Buffer& memory : buckets) buckets_.push_back({.memory = memory});
  thread_ = std::thread([this] { run(); });
}

SliceThread::~SliceThread() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::uint64_t SliceThread::slices_of(std::size_t bucket) const {
  const Buffer& memory = buckets_[bucket].memory;
  const std::uint64_t elements = slice_elements(memory);
  return std::max<std::uint64_t>(1, (memory.count + elements - 1) / elements);
}

void SliceThread::begin(std::vector<std::uint64_t> plan) {
  const std::lock_guard lock(mutex_);
  plan_ = std::move(plan);
  next_ = 0;
  busy_ = {};
  for (Bucket& bucket : buckets_) bucket = {.memory = bucket.memory};
}

void SliceThread::start(std::size_t bucket, void* stream) {
  {
    const std::lock_guard lock(mutex_);
    buckets_[bucket].stream = stream;
    buckets_[bucket].is_ready = true;
  }
  changed_.notify_all();
}

void SliceThread::wait(std::size_t bucket) {
  std::unique_lock lock(mutex_);
  const std::uint64_t slices = slices_of(bucket);
  changed_.wait(lock, [&] { return error_ || buckets_[bucket].slices_done == slices; });
  if (error_) std::rethrow_exception(error_);
}

SliceThread::Times SliceThread::times(std::size_t bucket) {
  const std::lock_guard lock(mutex_);
  return buckets_[bucket].times;
}

std::chrono::nanoseconds SliceThread::busy() {
  const std::lock_guard lock(mutex_);
  return busy_;
}

bool SliceThread::can_start() const {
  return !is_stopped_ && !error_ && next_ < plan_.size() && buckets_[plan_[next_]].is_ready;
}

SliceThread::Slice SliceThread::start_next() {
  const std::size_t index = plan_[next_++];
  Bucket& bucket = buckets_[index];
  const auto now = Clock::now();
  if (bucket.next_slice == 0) bucket.times.started = now;
  const Buffer& whole = bucket.memory;
  const std::uint64_t elements = slice_elements(whole);
  const std::uint64_t begin = elements * bucket.next_slice++;
  const Buffer part(static_cast<std::byte*>(whole.data) + begin * size_of(whole.dtype),
                    std::min(elements, whole.count - begin), whole.dtype, whole.device);
  const bool travels_otherwise = wire_ && whole.dtype == DType::float32;
  return {index,
          communicator_.all_reduce_async(
              part, ReduceOp::average,
              {.wire = travels_otherwise ? wire_ : std::nullopt, .stream = bucket.stream}),
          now};
}

void SliceThread::finish(const Slice& slice, std::exception_ptr error) {
  const auto now = Clock::now();
  busy_ += now - std::max(slice.started, std::exchange(last_end_, now));
  Bucket& bucket = buckets_[slice.bucket];
  bucket.times.ended = now;
  if (error && !error_) error_ = error;
  if (!error) ++bucket.slices_done;
  changed_.notify_all();
}

void SliceThread::run() {
  std::deque<Slice> under_way;
  std::unique_lock lock(mutex_);
  while (true) {
    if (under_way.empty()) changed_.wait(lock, [this] { return is_stopped_ || can_start(); });
    while (under_way.size() < kSlicesUnderWay && can_start()) {
      try {
        under_way.push_back(start_next());
      } catch (const std::exception&) {
        error_ = std::current_exception();
        changed_.notify_all();
      }
    }
    if (under_way.empty()) {
      if (is_stopped_) return;
      continue;
    }
    const Slice oldest = under_way.front();
    const bool is_full = under_way.size() == kSlicesUnderWay;
    lock.unlock();
    std::exception_ptr error;
    bool is_done = true;
    try {
      if (is_full) {
        oldest.work.wait();
      } else {
        is_done = oldest.work.wait(kLookAgain);
      }
    } catch (const std::exception&) {
      error = std::current_exception();
    }
    lock.lock();
    if (!is_done) continue;
    under_way.pop_front();
    finish(oldest, error);
  }
}

}  // namespace kolo::train

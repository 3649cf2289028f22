#include "gradients/bucket_search.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "gradients/times.hpp"

namespace kolo::train {
namespace {

constexpr std::size_t kSteps = 5;  // a round; their medians count
constexpr int kMostRounds = 3;     // by sizes, as found, as found with a better price
constexpr std::uint64_t kShortCall = 4096;
/// Fewer buckets are worth so much of the exposed time: each costs the processors something beside its time.
constexpr double kSlack = 0.02;
/// Times of a few steps tell no smaller gain.
constexpr double kLeastGain = 0.03;

std::vector<ReadyGradient> pick(std::span<const ReadyGradient> gradients,
                                std::span<const std::size_t> order) {
  std::vector<ReadyGradient> result;
  for (const std::size_t i : order) result.push_back(gradients[i]);
  return result;
}

double end_of(const BucketSearch::Layout& layout, std::span<const ReadyGradient> gradients,
              const BucketPrice& price) {
  std::vector<std::size_t> order, ends;
  for (const auto& members : layout) {
    order.insert(order.end(), members.begin(), members.end());
    ends.push_back(order.size());
  }
  return end_of(pick(gradients, order), ends, price);
}

}  // namespace

BucketSearch::BucketSearch(std::size_t parameters, const DistributedDataParallelOptions& options)
    : wire_(options.wire), limits_{options.first_bucket_bytes, options.bucket_bytes}, times_(parameters) {}

void BucketSearch::begin() {
  first_.reset();
}

void BucketSearch::note(std::size_t parameter) {
  times_[parameter] = Clock::now();
  if (!first_) first_ = times_[parameter];
}

std::optional<BucketSearch::Layout> BucketSearch::end_step(Communicator& communicator, const Layout& layout,
                                                           const std::vector<Bucket>& buckets,
                                                           std::span<const std::size_t> order, int root) {
  if (root != 0 || buckets.empty()) {  // rank 0 has no more data, or all gradients are sparse
    stop();
    return {};
  }
  is_steady_ = is_steady_ && (order_.empty() || std::ranges::equal(order, order_));
  order_.assign(order.begin(), order.end());
  if (std::exchange(warms_up_, false)) return {};
  steps_.push_back(measure(layout, buckets));
  if (steps_.size() < kSteps) return {};

  const Round round = agree(communicator);
  steps_.clear();
  warms_up_ = true;
  Layout next = layout;
  if (communicator.rank() == 0) next = decide(communicator, layout, buckets, round);
  tell(communicator, next);
  if (next == layout) return {};
  return next;
}

BucketSearch::Step BucketSearch::measure(const Layout& layout, const std::vector<Bucket>& buckets) const {
  Step step;
  Clock::time_point last_ready = *first_, last_done = *first_;
  for (const Clock::time_point time : times_) step.ready.push_back(seconds_of(time - *first_));
  for (const auto& members : layout) {
    for (const std::size_t parameter : members) last_ready = std::max(last_ready, times_[parameter]);
  }
  for (const Bucket& bucket : buckets) {
    step.done.push_back(seconds_of(bucket.ended() - *first_));
    last_done = std::max(last_done, bucket.ended());
  }
  step.exposed = std::max(0.0, seconds_of(last_done - last_ready));
  return step;
}

BucketSearch::Round BucketSearch::agree(Communicator& communicator) const {
  const auto median = [this](const auto& of) {
    std::vector<double> values;
    for (const Step& step : steps_) values.push_back(of(step));
    return median_of(std::move(values));
  };
  // A bucket begins when its gradients are ready on all ranks. Ranks that are ahead count their wait for a
  // late one as well: on the late one its time since the first gradient is the shortest.
  std::vector<double> values;
  for (std::size_t i = 0; i < times_.size(); ++i)
    values.push_back(median([i](const Step& step) { return step.ready[i]; }));
  for (std::size_t b = 0; b < steps_[0].done.size(); ++b)
    values.push_back(-median([b](const Step& step) { return step.done[b]; }));
  values.push_back(median([](const Step& step) { return step.exposed; }));
  communicator.all_reduce(Buffer(values), ReduceOp::max);

  Round round;
  const auto ready_end = values.begin() + static_cast<std::ptrdiff_t>(times_.size());
  round.ready.assign(values.begin(), ready_end);
  for (auto value = ready_end; value != values.end() - 1; ++value) round.done.push_back(-*value);
  round.exposed = values.back();
  return round;
}

std::vector<BusyTime> BucketSearch::busy_times(const Layout& layout, const std::vector<Bucket>& buckets,
                                               const Round& round) {
  std::vector<BusyTime> result;
  double free = -1, begin = 0;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    double ready = 0;
    for (const std::size_t parameter : layout[b]) ready = std::max(ready, round.ready[parameter]);
    if (ready >= free) {
      result.push_back({0, 0, 0});
      begin = ready;
    }
    free = std::max(free, round.done[b]);
    BusyTime& busy = result.back();
    ++busy.buckets;
    busy.bytes += static_cast<double>(buckets[b].bytes());
    busy.seconds = free - begin;
  }
  return result;
}

BucketPrice BucketSearch::expected_price(const Communicator& communicator,
                                         const std::vector<Bucket>& buckets) const {
  std::uint64_t total = 0;
  for (const Bucket& bucket : buckets) total += bucket.bytes();
  const auto estimate = [&](std::uint64_t bytes) {
    const CallOptions options{.wire = wire_};
    return BusyTime{1, static_cast<double>(bytes),
                    seconds_of(communicator.estimate("all_reduce", bytes, options).time)};
  };
  return line_through(estimate(kShortCall), estimate(std::max(total, 2 * kShortCall)));
}

BucketSearch::Layout BucketSearch::decide(const Communicator& communicator, const Layout& layout,
                                          const std::vector<Bucket>& buckets, const Round& round) {
  ++rounds_;
  if (rounds_ == 1) plan_.exposed_before = std::chrono::duration<double>(round.exposed);
  const bool is_better = rounds_ == 1 || round.exposed < least_exposed_;
  if (is_better) {
    best_ = layout;
    least_exposed_ = round.exposed;
  }

  std::vector<ReadyGradient> gradients(times_.size());  // by parameter
  std::vector<bool> is_dense(times_.size(), false);
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    for (std::size_t s = 0; s < layout[b].size(); ++s) {
      const std::size_t parameter = layout[b][s];
      gradients[parameter] = {buckets[b].views()[s].nbytes(), buckets[b].buffer().dtype,
                              round.ready[parameter]};
      is_dense[parameter] = true;
    }
  }
  std::ranges::move(busy_times(layout, buckets, round), std::back_inserter(busy_));
  const BucketPrice price = fit_price(busy_, expected_price(communicator, buckets));
  std::vector<std::size_t> order;
  std::ranges::copy_if(order_, std::back_inserter(order), [&](std::size_t i) { return is_dense[i]; });
  const std::vector<ReadyGradient> ordered = pick(gradients, order);
  const double last_ready = std::ranges::max(ordered, {}, &ReadyGradient::ready).ready;
  const Borders borders = find_borders(ordered, price, limits_, kSlack);

  plan_.latency = std::chrono::duration<double>(price.latency);
  plan_.per_mebibyte = std::chrono::duration<double>(price.per_byte * (1 << 20));
  plan_.is_final = !is_steady_ || !is_better || rounds_ == kMostRounds ||
                   borders.end - last_ready > (1 - kLeastGain) * least_exposed_;
  Layout next = plan_.is_final ? best_ : assign_buckets(gradients, order, borders.ends);
  plan_.exposed = std::chrono::duration<double>(end_of(next, gradients, price) - last_ready);
  return next;
}

void BucketSearch::tell(Communicator& communicator, Layout& layout) {
  communicator.broadcast(Buffer(&plan_, sizeof plan_, DType::uint8), 0);
  // All ranks have as many parameters in buckets. The last one of a bucket is marked.
  std::vector<std::uint64_t> words;
  for (const auto& members : layout) {
    for (std::size_t i = 0; i < members.size(); ++i)
      words.push_back(members[i] << 1 | (i + 1 == members.size() ? 1 : 0));
  }
  communicator.broadcast(Buffer(words), 0);
  layout.clear();
  bool ends = true;
  for (const std::uint64_t word : words) {
    if (ends) layout.emplace_back();
    layout.back().push_back(word >> 1);
    ends = (word & 1) != 0;
  }
}

}  // namespace kolo::train

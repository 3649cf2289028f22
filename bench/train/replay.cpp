#include "train/replay.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "train/replayed_model.hpp"
#include "train/statistics.hpp"

namespace kolo::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kStepsLeftOut = 3;

double seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

struct Times {
  std::vector<double> step, exposed, processor;
};

class Replay {
 public:
  Replay(const Trace& trace, Communicator communicator, const ReplayOptions& options)
      : communicator_(std::move(communicator)),
        model_(std::make_shared<ReplayedModel>(trace)),
        parallel_(model_, communicator_, options.parallel),
        is_exact_(!options.parallel.hook && !options.parallel.wire) {}

  /// The slowest rank's times of each step.
  Times run(const Trace& trace, int steps) {
    model_->set_trace(trace);
    Times times;
    for (int step = 0; step < kStepsLeftOut + steps; ++step) {
      const float mine = static_cast<float>(communicator_.rank() + 1) + static_cast<float>(step % 8);
      model_->set_gradients(mine);
      communicator_.barrier();
      const double processor = processor_seconds();
      const auto begin = Clock::now();
      parallel_().backward();
      model_->optimize();
      const double took = seconds(Clock::now() - begin);
      verify(static_cast<float>(communicator_.size() + 1) / 2 + static_cast<float>(step % 8));
      if (step < kStepsLeftOut) continue;
      times.step.push_back(took);
      times.exposed.push_back(seconds(parallel_.last_step().exposed));
      times.processor.push_back(processor_seconds() - processor);
    }
    communicator_.all_reduce(Buffer(times.step), ReduceOp::max);
    communicator_.all_reduce(Buffer(times.exposed), ReduceOp::max);
    communicator_.all_reduce(Buffer(times.processor), ReduceOp::average);
    return times;
  }

  double first_bucket(const Trace& trace) const {
    const auto names = parallel_.buckets().front().parameters;
    double last = 0;
    for (const TracedParameter& parameter : trace.parameters) {
      std::string name = parameter.name;
      std::ranges::replace(name, '.', '_');
      if (std::ranges::find(names, name) != names.end()) last = std::max(last, parameter.ready);
    }
    return last;
  }
  std::size_t buckets() const { return parallel_.buckets().size(); }

 private:
  /// The first and the last element of each bucket. What a hook or a format makes of them is its own affair,
  /// as long as it is finite.
  void verify(float expected) const {
    for (const auto& bucket : parallel_.buckets()) {
      const auto* values = static_cast<const float*>(bucket.gradients.data);
      for (const float value : {values[0], values[bucket.gradients.count - 1]}) {
        const bool is_right =
            is_exact_ ? std::abs(value - expected) <= 1e-5f * expected : std::isfinite(value);
        if (!is_right)
          throw std::runtime_error("an average is " + std::to_string(value) + ", not " +
                                   std::to_string(expected));
      }
    }
  }

  Communicator communicator_;
  std::shared_ptr<ReplayedModel> model_;
  DistributedDataParallel<ReplayedModel> parallel_;
  bool is_exact_;
};

}  // namespace

double ReplayResult::bound() const {
  return forward + std::max({backward, first_bucket + communication, processor}) + optimizer;
}

ReplayResult replay(const Trace& original, Communicator communicator, const ReplayOptions& options) {
  at::set_num_threads(1);
  Replay replay(original, communicator, options);
  const Trace nothing = original.scaled(0);
  // Also lets the buckets be filled in the order of readiness, which all steps at once would not show.
  replay.run(original, 1);
  const double communication = median(replay.run(nothing, options.steps).step);
  const Trace trace = options.compute_ratio > 0
                          ? original.scaled(options.compute_ratio * communication / original.compute())
                          : original;
  const std::uint64_t sent_before = communicator.counters().bytes_sent;
  const Times times = replay.run(trace, options.steps);
  std::vector<double> sent{static_cast<double>(communicator.counters().bytes_sent - sent_before) /
                           (kStepsLeftOut + options.steps)};
  communicator.all_reduce(Buffer(sent), ReduceOp::average);

  ReplayResult result;
  result.ranks = communicator.size();
  result.buckets = replay.buckets();
  result.forward = trace.forward;
  result.backward = trace.backward;
  result.optimizer = trace.optimizer;
  result.first_bucket = replay.first_bucket(trace);
  result.communication = communication;
  // Ranks of an emulated cluster share this machine's cores, whatever host they seem to be on.
  result.processor = median(times.processor) * communicator.size() / std::thread::hardware_concurrency();
  result.exposed = median(times.exposed);
  result.step = median(times.step);
  result.step_mean = mean(times.step);
  result.sent_bytes = sent[0];
  return result;
}

}  // namespace kolo::bench

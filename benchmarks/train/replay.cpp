#include "train/replay.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "kolo/train/compression.hpp"
#include "train/delayed_replay.hpp"
#include "train/overlapped_replay.hpp"
#include "train/processor_time.hpp"
#include "train/replayed_model.hpp"
#include "train/sharded_replay.hpp"
#include "train/statistics.hpp"

namespace kolo::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kStepsLeftOut = 3;
constexpr int kStepsUntilPlanned = 10;
constexpr int kMostRunsUntilFinal = 10;
constexpr int kBlocks = 3;

double seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

struct Times : StepTimes {
  void append(const auto& other) {
    step.insert(step.end(), other.step.begin(), other.step.end());
    exposed.insert(exposed.end(), other.exposed.begin(), other.exposed.end());
    processor.insert(processor.end(), other.processor.begin(), other.processor.end());
  }
  /// Collective: the slowest rank's, and the ranks' mean of processor times.
  void agree(Communicator& communicator) {
    communicator.all_reduce(Buffer(step), ReduceOp::max);
    communicator.all_reduce(Buffer(exposed), ReduceOp::max);
    communicator.all_reduce(Buffer(processor), ReduceOp::average);
  }
};

/// Ranks of an emulated cluster share this machine's cores, whatever host they seem to be on.
double processor_of(const Times& times, const Communicator& communicator) {
  return median(times.processor) * communicator.size() / std::thread::hardware_concurrency();
}

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
    times.agree(communicator_);
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
  BucketPlan plan() const { return parallel_.bucket_plan(); }
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

/// Blocks of both in turns, as a machine's links and load change with time. Returns the plain ones' times.
Times run_in_turns(Replay& plain, const Trace& trace, Communicator& communicator,
                   const ReplayOptions& options, ReplayResult& result) {
  OverlappedReplay overlapped(trace, communicator, options.parallel);
  // Slices are planned anew in the first steps.
  overlapped.run(trace, 0, kStepsUntilPlanned);
  Times with, without;
  const int blocks = std::min(kBlocks, options.steps);
  for (int block = 0; block < blocks; ++block) {
    const int steps = (options.steps + block) / blocks;
    without.append(plain.run(trace, steps));
    with.append(overlapped.run(trace, steps, kStepsLeftOut));
  }
  with.agree(communicator);
  result.overlapped.emplace(ReplayResult::Overlapped{median(with.step), mean(with.step), median(with.exposed),
                                                     processor_of(with, communicator),
                                                     result.communication * overlapped.first_share()});
  return without;
}

/// The same with averages that arrive one step late.
Times run_beside_delayed(Replay& plain, const Trace& trace, Communicator& communicator,
                         const ReplayOptions& options, ReplayResult& result) {
  DelayedReplay delayed(trace, communicator);
  Times communication;
  communication.step = delayed.communicate(options.steps);
  communication.agree(communicator);
  Times with, without, alone;
  const int blocks = std::min(kBlocks, options.steps);
  for (int block = 0; block < blocks; ++block) {
    const int steps = (options.steps + block) / blocks;
    without.append(plain.run(trace, steps));
    with.append(delayed.run(trace, steps, kStepsLeftOut));
    alone.append(delayed.compute(trace, steps, kStepsLeftOut));
  }
  with.agree(communicator);
  alone.agree(communicator);
  result.delayed.emplace(ReplayResult::Delayed{median(with.step), mean(with.step), median(with.exposed),
                                               processor_of(with, communicator), median(communication.step),
                                               median(alone.step)});
  return without;
}

/// The same with borders from measured times.
Times run_beside_measured(Replay& plain, const Trace& trace, Communicator& communicator,
                          const ReplayOptions& options, ReplayResult& result) {
  ReplayOptions other = options;
  other.parallel.bucket_borders = BucketBorders::measured;
  if (options.parallel.hook) other.parallel.hook = make_gradient_hook(options.parallel.hook->describe());
  Replay measured(trace, communicator, other);
  for (int run = 0; run < kMostRunsUntilFinal && !measured.plan().is_final; ++run) measured.run(trace, 0);
  Times with, without;
  const int blocks = std::min(kBlocks, options.steps);
  for (int block = 0; block < blocks; ++block) {
    const int steps = (options.steps + block) / blocks;
    without.append(plain.run(trace, steps));
    with.append(measured.run(trace, steps));
  }
  result.measured.emplace(
      ReplayResult::Measured{measured.buckets(), median(with.step), mean(with.step), median(with.exposed),
                             processor_of(with, communicator), measured.first_bucket(trace),
                             median(measured.run(trace.scaled(0), options.steps).step), measured.plan()});
  return without;
}

/// The same with a model that is divided among the ranks.
Times run_beside_sharded(Replay& plain, const Trace& trace, Communicator& communicator,
                         const ReplayOptions& options, ReplayResult& result) {
  ShardedReplay sharded(trace, communicator, *options.shard);
  const int blocks = std::min(kBlocks, options.steps);
  Times with, without, alone;
  sharded.run(trace, 0, kStepsLeftOut);
  std::vector<double> sent{-static_cast<double>(communicator.counters().bytes_sent)};
  alone.append(sharded.run(trace.scaled(0), options.steps, 0));
  sent[0] = (sent[0] + static_cast<double>(communicator.counters().bytes_sent)) / options.steps;
  communicator.all_reduce(Buffer(sent), ReduceOp::average);
  for (int block = 0; block < blocks; ++block) {
    const int steps = (options.steps + block) / blocks;
    without.append(plain.run(trace, steps));
    with.append(sharded.run(trace, steps, kStepsLeftOut));
  }
  with.agree(communicator);
  alone.agree(communicator);
  result.sharded.emplace(ReplayResult::Sharded{median(with.step), mean(with.step), median(with.exposed),
                                               processor_of(with, communicator), median(alone.step),
                                               sent[0]});
  return without;
}

}  // namespace

double ReplayResult::measured_bound() const {
  return forward +
         std::max({backward, measured->first_bucket + measured->communication, measured->processor}) +
         optimizer;
}

double ReplayResult::delayed_bound() const {
  return std::max(delayed->computation, delayed->communication);
}

double ReplayResult::overlapped_bound() const {
  return std::max(
      {forward + backward + optimizer + overlapped->first_layer, communication, overlapped->processor});
}

double ReplayResult::bound() const {
  return forward + std::max({backward, first_bucket + communication, processor}) + optimizer;
}

ReplayResult replay(const Trace& original, Communicator communicator, const ReplayOptions& options) {
  at::set_num_threads(1);
  Replay replay(original, communicator, options);
  const Trace nothing = original.scaled(0);
  // Also lets the buckets be filled in the order of readiness, which all steps at once would not show.
  replay.run(original, 1);
  const std::uint64_t sent_before = communicator.counters().bytes_sent;
  ReplayResult result;
  result.communication = median(replay.run(nothing, options.steps).step);
  std::vector<double> sent{static_cast<double>(communicator.counters().bytes_sent - sent_before) /
                           (kStepsLeftOut + options.steps)};
  communicator.all_reduce(Buffer(sent), ReduceOp::average);
  const double wanted =
      options.compute_ratio > 0 ? options.compute_ratio * result.communication : options.compute_seconds;
  const Trace trace = wanted > 0 ? original.scaled(wanted / original.compute()) : original;
  const Times times =
      options.overlap_forward    ? run_in_turns(replay, trace, communicator, options, result)
      : options.delayed_averages ? run_beside_delayed(replay, trace, communicator, options, result)
      : options.measured_borders ? run_beside_measured(replay, trace, communicator, options, result)
      : options.shard            ? run_beside_sharded(replay, trace, communicator, options, result)
                                 : replay.run(trace, options.steps);

  result.ranks = communicator.size();
  result.buckets = replay.buckets();
  result.forward = trace.forward;
  result.backward = trace.backward;
  result.optimizer = trace.optimizer;
  result.first_bucket = replay.first_bucket(trace);
  result.processor = processor_of(times, communicator);
  result.exposed = median(times.exposed);
  result.step = median(times.step);
  result.step_mean = mean(times.step);
  result.sent_bytes = sent[0];
  return result;
}

}  // namespace kolo::bench

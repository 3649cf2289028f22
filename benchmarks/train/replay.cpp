#include "train/replay.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "kolo/train/hooks.hpp"
#include "train/delayed_replay.hpp"
#include "train/overlapped_replay.hpp"
#include "train/replayed_model.hpp"
#include "train/sharded_replay.hpp"

namespace kolo::bench {
namespace {

constexpr int kStepsLeftOut = 3;
constexpr int kStepsUntilPlanned = 10;
constexpr int kMostRunsUntilFinal = 10;
constexpr int kBlocks = 3;

class Replay {
 public:
  Replay(const Trace& trace, Communicator communicator, const ReplayOptions& options)
      : communicator_(std::move(communicator)),
        model_(std::make_shared<ReplayedModel>(trace)),
        parallel_(model_, communicator_, options.parallel),
        is_exact_(!options.parallel.hook && !options.parallel.wire) {}

  StepTimes run(const Trace& trace, int steps) {
    model_->set_trace(trace);
    StepClock clock(kStepsLeftOut);
    for (int step = 0; step < kStepsLeftOut + steps; ++step) {
      model_->set_gradients(static_cast<float>(communicator_.rank() + 1 + step % 8));
      communicator_.barrier();
      clock.begin();
      parallel_().backward();
      model_->optimize();
      clock.end(parallel_.last_step().exposed);
      verify(static_cast<float>(communicator_.size() + 1) / 2 + static_cast<float>(step % 8));
    }
    return clock.take();
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
  /// Checks the first and the last element of each bucket. With a hook or a wire format they are only finite.
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

/// Bytes that a rank sends in one of the `steps` steps of `run`: the mean of all ranks.
double sent_in(const std::function<void()>& run, int steps, Communicator& communicator) {
  const std::uint64_t before = communicator.counters().bytes_sent;
  run();
  std::vector<double> sent{static_cast<double>(communicator.counters().bytes_sent - before) / steps};
  communicator.all_reduce(Buffer(sent), ReduceOp::average);
  return sent[0];
}

/// Replays plain steps, interleaved in blocks with steps of another way, because a machine's links and load
/// change with time.
class Comparison {
 public:
  Comparison(Replay& plain, const Trace& trace, Communicator& communicator, const ReplayOptions& options,
             ReplayResult& result)
      : plain_(plain), trace_(trace), communicator_(communicator), options_(options), result_(result) {}

  /// Returns the times of the plain steps.
  StepTimes run() {
    if (options_.overlap_forward) return run_overlapped();
    if (options_.delayed_averages) return run_delayed();
    if (options_.measured_borders) return run_measured();
    if (options_.shard) return run_sharded();
    return plain_.run(trace_, options_.steps);
  }

 private:
  StepTimes interleave(const std::function<void(int steps)>& run_other) {
    StepTimes times;
    const int blocks = std::min(kBlocks, options_.steps);
    for (int block = 0; block < blocks; ++block) {
      const int steps = (options_.steps + block) / blocks;
      times.append(plain_.run(trace_, steps));
      run_other(steps);
    }
    return times;
  }

  StepTimes run_overlapped() {
    OverlappedReplay overlapped(trace_, communicator_, options_.parallel);
    overlapped.run(trace_, 0, kStepsUntilPlanned);  // slices are planned anew in the first steps
    StepTimes with;
    StepTimes plain =
        interleave([&](int steps) { with.append(overlapped.run(trace_, steps, kStepsLeftOut)); });
    result_.overlapped = ReplayResult::Overlapped{summary_of(with, communicator_),
                                                  result_.communication * overlapped.first_share()};
    return plain;
  }

  StepTimes run_delayed() {
    DelayedReplay delayed(trace_, communicator_);
    StepTimes communication, with, alone;
    communication.step = delayed.communicate(options_.steps);
    StepTimes plain = interleave([&](int steps) {
      with.append(delayed.run(trace_, steps, kStepsLeftOut));
      alone.append(delayed.compute(trace_, steps, kStepsLeftOut));
    });
    result_.delayed =
        ReplayResult::Delayed{summary_of(with, communicator_), summary_of(communication, communicator_).step,
                              summary_of(alone, communicator_).step};
    return plain;
  }

  StepTimes run_measured() {
    ReplayOptions options = options_;
    options.parallel.bucket_borders = BucketBorders::measured;
    if (auto& hook = options.parallel.hook) hook = make_gradient_hook(hook->describe());
    Replay measured(trace_, communicator_, options);
    for (int run = 0; run < kMostRunsUntilFinal && !measured.plan().is_final; ++run) measured.run(trace_, 0);
    StepTimes with;
    StepTimes plain = interleave([&](int steps) { with.append(measured.run(trace_, steps)); });
    const StepSummary alone = summary_of(measured.run(trace_.scaled(0), options_.steps), communicator_);
    result_.measured = ReplayResult::Measured{summary_of(with, communicator_), measured.buckets(),
                                              measured.first_bucket(trace_), alone.step, measured.plan()};
    return plain;
  }

  StepTimes run_sharded() {
    ShardedReplay sharded(trace_, communicator_, *options_.shard);
    sharded.run(trace_, 0, kStepsLeftOut);
    StepTimes with, alone;
    const double sent = sent_in([&] { alone = sharded.run(trace_.scaled(0), options_.steps, 0); },
                                options_.steps, communicator_);
    StepTimes plain = interleave([&](int steps) { with.append(sharded.run(trace_, steps, kStepsLeftOut)); });
    result_.sharded =
        ReplayResult::Sharded{summary_of(with, communicator_), summary_of(alone, communicator_).step, sent};
    return plain;
  }

  Replay& plain_;
  const Trace& trace_;
  Communicator& communicator_;
  const ReplayOptions& options_;
  ReplayResult& result_;
};

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
  // With the trace's times, so that buckets are rebuilt in the order in which gradients get ready.
  replay.run(original, 1);
  ReplayResult result;
  StepTimes alone;
  result.sent_bytes = sent_in([&] { alone = replay.run(nothing, options.steps); },
                              kStepsLeftOut + options.steps, communicator);
  result.communication = summary_of(alone, communicator).step;
  const double wanted =
      options.compute_ratio > 0 ? options.compute_ratio * result.communication : options.compute_seconds;
  const Trace trace = wanted > 0 ? original.scaled(wanted / original.compute()) : original;
  const StepTimes times = Comparison(replay, trace, communicator, options, result).run();
  static_cast<StepSummary&>(result) = summary_of(times, communicator);
  result.ranks = communicator.size();
  result.buckets = replay.buckets();
  result.forward = trace.forward;
  result.backward = trace.backward;
  result.optimizer = trace.optimizer;
  result.first_bucket = replay.first_bucket(trace);
  return result;
}

}  // namespace kolo::bench

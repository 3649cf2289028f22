// What an all-reduce of the gradients makes of a training step: times of communication and of steps, the
// bottleneck.
#pragma once

#include <cstdint>
#include <string>

#include "algorithms/algorithm.hpp"

namespace kolo::plan {

/// A server with one link hands on a piece of the result once that piece has come from every worker, so it
/// waits for the slowest of the connections that share its link. Unevenness is the share of the slowest
/// connection's data that is still to come when all others have ended: 0 where all advance alike, 1 where
/// they take turns. The default lies between what was measured with the congestion controls
/// cubic and bbr (docs/choosing.md).
inline constexpr double kTypicalUnevenness = 0.3;

/// A job of data-parallel training, one worker on each host. A value.
struct TrainingJob {
  std::uint64_t bytes = 0;      ///< of the gradients of one worker
  double compute = 0;           ///< seconds of one worker's step: forward, backward and optimizer
  double backward = 0;          ///< seconds of `compute` that are backward
  int workers = 2;              ///< from 2
  double bytes_per_second = 0;  ///< payload that a host's link carries, each way, both ways at once
  double unevenness = kTypicalUnevenness;
};

/// The time of one all-reduce of the gradients, with nothing computed meanwhile. Seconds.
struct Communication {
  std::string algorithm;  ///< as Configured::name()
  double in = 0;          ///< that the busiest link needs for what comes in
  double out = 0;         ///< that the busiest link needs for what leaves
  double expected = 0;
  double least = 0;        ///< with an unevenness of 0
  double most = 0;         ///< with an unevenness of 1
  std::string bottleneck;  ///< "the server's link, in"

  double both_at_once() const;  ///< the longer of `in` and `out`
  double in_turns() const;      ///< the sum of `in` and `out`
};

/// Plays the schedules on the job's links with typical costs of messages (predict(); beyond 64 workers the
/// busiest link's bytes and a latency for each step instead). For `central` and `parameter_server` adds what
/// the unevenness costs. The algorithm must support so many workers.
Communication price(const TrainingJob& job, const Configured& algorithm);

/// One step of the job. Seconds and shares.
struct StepTime {
  double seconds = 0;
  double communication = 0;  ///< share of the step in which nothing is computed
  double efficiency = 0;     ///< the time of a step of one worker alone, which sends nothing, over this time
  std::string bottleneck;    ///< "compute", or that of the communication
};

/// All gradients are averaged after backward: compute + communication.
StepTime without_overlap(const TrainingJob& job, const Communication& communication);

/// Buckets are averaged while backward computes the next ones, at best: forward + max(backward, first bucket
/// + communication) + optimizer. docs/training/overlap.md; the first bucket is that of
/// DistributedDataParallelOptions, ready after its share of backward.
StepTime with_overlap(const TrainingJob& job, const Communication& communication);

}  // namespace kolo::plan

// Predicts a training step with an all-reduce of the gradients: times of communication and of steps, the
// bottleneck.
#pragma once

#include <cstdint>
#include <string>

#include "algorithms/algorithm.hpp"

namespace kolo::plan {

/// A server with one link sends on a piece of the result after that piece has come from every worker. So it
/// waits for the slowest of the connections that share its link. Unevenness is the share of the slowest
/// connection's data that is still missing when all other connections have ended. It is 0 if all connections
/// advance alike, and 1 if they send one after the other. The default lies between the values measured with
/// the congestion controls cubic and bbr (docs/choosing.md).
inline constexpr double kTypicalUnevenness = 0.3;

/// A job of data-parallel training, one worker on each host. A value.
struct TrainingJob {
  std::uint64_t bytes = 0;      ///< size of one worker's gradients
  double compute = 0;           ///< seconds of one worker's step: forward, backward and optimizer
  double backward = 0;          ///< seconds of `compute` spent in backward
  int workers = 2;              ///< at least 2
  double bytes_per_second = 0;  ///< payload that a host's link carries, each way, both ways at once
  double unevenness = kTypicalUnevenness;
};

/// The time of one all-reduce of the gradients without concurrent computation. Seconds.
struct Communication {
  std::string algorithm;  ///< as ConfiguredAlgorithm::name()
  double in = 0;          ///< time that the busiest link needs for incoming data
  double out = 0;         ///< time that the busiest link needs for outgoing data
  double expected = 0;
  double least = 0;        ///< with an unevenness of 0
  double most = 0;         ///< with an unevenness of 1
  std::string bottleneck;  ///< "the server's link, in"

  double both_at_once() const;  ///< the longer of `in` and `out`
  double in_turns() const;      ///< the sum of `in` and `out`
};

/// Simulates the schedules on the job's links with typical costs of messages (predict()). Beyond 64 workers
/// it uses the busiest link's bytes and a latency for each step instead. For `central` and `parameter_server`
/// it adds the cost of the unevenness. The algorithm must support this number of workers.
Communication price(const TrainingJob& job, const ConfiguredAlgorithm& algorithm);

/// One step of the job. Seconds and shares.
struct StepTime {
  double seconds = 0;
  double communication = 0;  ///< share of the step without computation
  double efficiency =
      0;  ///< the time of a step of a single worker without communication, divided by this time
  std::string bottleneck;  ///< "compute", or that of the communication
};

/// All gradients are averaged after backward: compute + communication.
StepTime without_overlap(const TrainingJob& job, const Communication& communication);

/// Buckets are averaged while backward computes the next ones. Best case: forward + max(backward, first
/// bucket + communication) + optimizer. docs/training/overlap.md; the first bucket is that of
/// DistributedDataParallelOptions, ready after its share of backward.
StepTime with_overlap(const TrainingJob& job, const Communication& communication);

}  // namespace kolo::plan

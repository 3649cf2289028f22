// Predicts a training step with an all-reduce of the gradients: its times and its bottleneck.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/algorithm.hpp"

namespace kolo::plan {

/// Unevenness of the connections that share a server's link: the share of the slowest connection's data that
/// is missing when all others have ended. A server waits for it. 0: all connections advance alike; 1: they
/// send one after the other. The default is between the values measured with cubic and bbr
/// (docs/choosing.md).
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

  double both_at_once() const { return std::max(in, out); }
  double in_turns() const { return in + out; }
};

/// Simulates the schedules on the job's links with typical costs of messages (predict()). Beyond 64 workers
/// it uses the busiest link's bytes and a latency for each step instead. For `central` and `parameter_server`
/// it adds the cost of the unevenness. The algorithm must support this number of workers.
Communication price(const TrainingJob& job, const algorithms::ConfiguredAlgorithm& algorithm);

/// One step of the job. Seconds and shares.
struct StepTime {
  double seconds = 0;
  double communication = 0;  ///< share of the step without computation
  double efficiency = 0;     ///< the time of a single worker's step, divided by this time
  std::string bottleneck;    ///< "compute", or that of the communication
};

/// All gradients are averaged after backward: compute + communication.
StepTime without_overlap(const TrainingJob& job, const Communication& communication);

/// Best case, with buckets averaged under backward: forward + max(backward, first bucket + communication) +
/// optimizer (docs/training/overlap.md). The first bucket is that of DistributedDataParallelOptions.
StepTime with_overlap(const TrainingJob& job, const Communication& communication);

struct PricedRow {
  Communication communication;
  bool is_chosen = false;  ///< a call would run it
};

/// The job, its communication, and its steps without and with overlap, as human-readable lines. All times are
/// in one unit, and columns are as wide as their widest cell. Columns are left out until lines have at most
/// `width` characters.
std::string step_tables(const TrainingJob& job, const std::vector<PricedRow>& rows, std::size_t width);

}  // namespace kolo::plan

#include "plan/step.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "schedule/lengths.hpp"
#include "selection/predict.hpp"

namespace kolo::plan {
namespace {

/// Schedules of more workers are not simulated, because that takes too long.
constexpr int kMaxPlayedWorkers = 64;
/// Limits on simulated segments, so that a simulation takes at most a second.
constexpr selection::PlayLimits kLimits = {.pieces = 1024, .total_pieces = 300'000};
/// DistributedDataParallelOptions::first_bucket_bytes.
constexpr double kFirstBucketBytes = 1 << 20;
/// Loads that differ by less are equally busy.
constexpr double kEqualLoad = 0.99;

/// The load of one worker's host. Bytes and seconds.
struct HostLoad {
  double in = 0;
  double out = 0;
  double processor = 0;
};

HostLoad load_of(const schedule::Schedule& schedule, const schedule::ChunkLengths& lengths,
                 const selection::CostModel& model) {
  HostLoad load;
  for (const schedule::Step& step : schedule.steps) {
    const schedule::ChunkRange& range = step.kind == schedule::StepKind::send ? step.a : step.dst;
    const auto bytes = static_cast<double>(lengths.of(range));
    const bool receives =
        step.kind == schedule::StepKind::recv || step.kind == schedule::StepKind::recv_reduce;
    const bool reduces =
        step.kind == schedule::StepKind::reduce || step.kind == schedule::StepKind::recv_reduce;
    if (step.kind == schedule::StepKind::send) {
      load.out += bytes;
      load.processor += bytes * model.network.sender_per_byte;
    }
    if (receives) {
      load.in += bytes;
      load.processor += bytes * model.network.receiver_per_byte;
    }
    if (reduces) load.processor += bytes * model.reduce_per_byte;
    if (step.kind == schedule::StepKind::copy) load.processor += bytes * model.copy_per_byte;
  }
  return load;
}

double largest(std::span<const HostLoad> loads, double HostLoad::*kind) {
  return (*std::ranges::max_element(loads, {}, kind)).*kind;
}

bool has_servers(const algorithms::ConfiguredAlgorithm& algorithm) {
  return algorithm.algorithm->name == "parameter_server" || algorithm.algorithm->name == "central";
}

/// The owner of the largest load: "the server's", "every worker's".
std::string owner_of(const algorithms::ConfiguredAlgorithm& algorithm, std::span<const HostLoad> loads,
                     double HostLoad::*kind) {
  const double most = largest(loads, kind);
  const auto busiest = static_cast<std::size_t>(
      std::ranges::count_if(loads, [&](const HostLoad& load) { return load.*kind >= kEqualLoad * most; }));
  if (busiest == loads.size()) return "every worker's";
  if (!has_servers(algorithm)) return busiest == 1 ? "one worker's" : "some workers'";
  if (busiest > 1) return "each server's";
  return algorithm.algorithm->name == "central" ? "the driver's" : "the server's";
}

std::string bottleneck_of(const algorithms::ConfiguredAlgorithm& algorithm, std::span<const HostLoad> loads,
                          double bytes_per_second) {
  const double in = largest(loads, &HostLoad::in);
  const double out = largest(loads, &HostLoad::out);
  if (largest(loads, &HostLoad::processor) > std::max(in, out) / bytes_per_second)
    return owner_of(algorithm, loads, &HostLoad::processor) + " processor";
  if (out > in) return owner_of(algorithm, loads, &HostLoad::out) + " link, out";
  const std::string link = owner_of(algorithm, loads, &HostLoad::in) + " link, ";
  // A server's results depend on its incoming data.
  return link + (out == in && !has_servers(algorithm) ? "both ways" : "in");
}

/// Seconds lost to the slowest connection with an unevenness of 1: the data of all other connections to a
/// server's link. 0 for algorithms without servers.
double cost_of_turns(const TrainingJob& job, const algorithms::ConfiguredAlgorithm& algorithm) {
  if (!has_servers(algorithm)) return 0;
  const int servers = algorithm.algorithm->name == "central"
                          ? 1
                          : algorithm.arguments.number("servers", std::max(1, job.workers / 2));
  const double share = static_cast<double>(job.bytes) / servers;
  return (job.workers - 2) * share / job.bytes_per_second;
}

selection::CostModel model_of(const TrainingJob& job) {
  selection::CostModel model = selection::typical_cost_model();
  model.network.wire_per_byte = 1 / job.bytes_per_second;
  return model;
}

StepTime step_of(const TrainingJob& job, double seconds, std::string bottleneck) {
  StepTime step;
  step.seconds = seconds;
  step.bottleneck = std::move(bottleneck);
  if (seconds <= 0) return step;
  step.communication = (seconds - job.compute) / seconds;
  step.efficiency = job.compute / seconds;
  return step;
}

}  // namespace

Communication price(const TrainingJob& job, const algorithms::ConfiguredAlgorithm& algorithm) {
  algorithms::ScheduleSpec spec{schedule::Collective::all_reduce, 0, job.workers, 0, algorithm.arguments, {}};
  spec.hosts.resize(static_cast<std::size_t>(job.workers));
  std::iota(spec.hosts.begin(), spec.hosts.end(), 0);
  const std::vector<schedule::Schedule> schedules = algorithms::generate_all(*algorithm.algorithm, spec);
  const std::vector<std::uint64_t> parts =
      schedule::even_parts(job.bytes, schedule::part_count(schedules[0]));
  const selection::CostModel model = model_of(job);
  std::vector<HostLoad> loads;
  for (const schedule::Schedule& schedule : schedules)
    loads.push_back(load_of(schedule, schedule::chunk_lengths(schedule, parts), model));

  Communication priced;
  priced.algorithm = algorithm.name();
  priced.in = largest(loads, &HostLoad::in) / job.bytes_per_second;
  priced.out = largest(loads, &HostLoad::out) / job.bytes_per_second;
  if (job.workers <= kMaxPlayedWorkers) {
    priced.least = selection::predict(schedules, parts, spec.hosts, model, {}, kLimits);
  } else {
    const double processor = largest(loads, &HostLoad::processor);
    const auto steps = static_cast<double>(algorithm.algorithm->closed_form.of(spec).steps);
    priced.least = std::max(priced.both_at_once(), processor) +
                   steps * (model.network.latency + 2 * model.network.overhead);
  }
  const double turns = cost_of_turns(job, algorithm);
  priced.expected = priced.least + job.unevenness * turns;
  priced.most = priced.least + turns;
  priced.bottleneck = bottleneck_of(algorithm, loads, job.bytes_per_second);
  return priced;
}

StepTime without_overlap(const TrainingJob& job, const Communication& communication) {
  return step_of(job, job.compute + communication.expected,
                 job.compute > communication.expected ? "compute" : communication.bottleneck);
}

StepTime with_overlap(const TrainingJob& job, const Communication& communication) {
  const double first_bucket =
      job.backward * std::min(1.0, kFirstBucketBytes / static_cast<double>(job.bytes));
  const double averaged = first_bucket + communication.expected;
  return step_of(job, job.compute - job.backward + std::max(job.backward, averaged),
                 job.backward >= averaged ? "compute" : communication.bottleneck);
}

}  // namespace kolo::plan

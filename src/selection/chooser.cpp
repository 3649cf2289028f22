#include "selection/chooser.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "base/arithmetic.hpp"
#include "schedule/lengths.hpp"
#include "selection/candidates.hpp"
#include "selection/predict.hpp"

namespace kolo::selection {
namespace {

/// With more ranks the closed forms give the time: playing the schedules would take long.
constexpr int kMostPlayed = 128;
/// Limit of the steps of all ranks together, for schedules that are generated only to count their traffic.
constexpr std::uint64_t kMostCounted = 1u << 20;
/// Measured times that differ by less are equal: no machine is quieter.
constexpr double kNoise = 1.05;
/// Predicted times that differ by less are equal: the model and its inputs are no more exact.
constexpr double kModelNoise = 1.1;
/// Limit of cached predictions: some programs' sizes, of all collectives.
constexpr std::size_t kMostPredictions = 4096;
constexpr std::uint64_t kOne = 1;

/// The exponent of the least power of two that is not less than `bytes`; -1 for 0. Not the nearest power:
/// messages that are short, or segments that are few, at a power of two are not so just above it.
int size_class(std::uint64_t bytes) {
  return bytes == 0 ? -1 : static_cast<int>(std::bit_width(bytes - 1));
}

/// How much of the data, as a fraction of it, the busiest host or rank sends.
struct Traffic {
  double from_host = 0;                ///< from one host to other hosts, over its link
  double between = 0;                  ///< from one rank to other hosts
  double inside = 0;                   ///< from one rank to other ranks of its host
  double besides = 0;                  ///< `inside` of a rank that also sends to other hosts, before or after
  std::uint64_t messages_between = 0;  ///< from one rank to other hosts
};

Traffic traffic(std::span<const schedule::Schedule> schedules, const std::vector<int>& hosts) {
  Traffic most;
  std::map<int, double> leaving;
  for (const schedule::Schedule& schedule : schedules) {
    const int host = hosts[static_cast<std::size_t>(schedule.rank)];
    double between = 0, inside = 0;
    std::uint64_t messages = 0;
    for (const schedule::Step& step : schedule.steps) {
      if (step.kind != schedule::StepKind::send) continue;
      const bool leaves = hosts[static_cast<std::size_t>(step.peer)] != host;
      (leaves ? between : inside) +=
          static_cast<double>(step.a.count) / static_cast<double>(schedule::part_count(schedule));
      if (leaves) ++messages;
    }
    most.from_host = std::max(most.from_host, leaving[host] += between);
    most.between = std::max(most.between, between);
    most.inside = std::max(most.inside, inside);
    if (messages > 0) most.besides = std::max(most.besides, inside);
    most.messages_between = std::max(most.messages_between, messages);
  }
  return most;
}

/// Bytes that the busiest sender sends, by the closed form.
double stated_bytes(const algorithms::Algorithm& algorithm, const algorithms::ScheduleSpec& spec,
                    std::uint64_t bytes) {
  const std::uint32_t parts = schedule::part_count(algorithm.generate(spec));
  if (parts == 0) return 0;
  return static_cast<double>(algorithm.closed_form.of(spec).sent) * static_cast<double>(bytes) / parts;
}

/// Bytes that the busiest sender sends, by the schedules, if each part of the data ends with a block.
std::uint64_t most_sent(const algorithms::Algorithm& algorithm, const algorithms::ScheduleSpec& spec,
                        std::uint64_t bytes, std::uint64_t block) {
  if (spec.size > kMostPlayed)
    return static_cast<std::uint64_t>(std::llround(stated_bytes(algorithm, spec, bytes)));
  std::uint64_t most = 0;
  for (const schedule::Schedule& schedule : algorithms::generate_all(algorithm, spec)) {
    const auto lengths =
        schedule::chunk_lengths(schedule, schedule::even_parts(bytes, schedule::part_count(schedule), block));
    std::uint64_t sent = 0;
    for (const schedule::Step& step : schedule.steps) {
      if (step.kind == schedule::StepKind::send) sent += lengths.of(step.a);
    }
    most = std::max(most, sent);
  }
  return most;
}

/// Measured algorithms come first in `all`. Among those as fast as the fastest but for noise, moves the one
/// that does best at the sizes around to the front.
void settle_ties(std::vector<ScoredAlgorithm>& all, const Measured& measured) {
  auto best = all.begin();
  double least = 0;
  for (auto at = all.begin(); at != all.end() && at->measured; ++at) {
    if (at->seconds > kNoise * all.front().seconds) break;
    const double around = measured.around(at->configured.name());
    if (at != all.begin() && around >= least) continue;
    best = at;
    least = around;
  }
  if (best != all.begin()) std::rotate(all.begin(), best, best + 1);
}

/// The load of the links between hosts: the fraction of the data that leaves the busiest host, in fiftieths.
/// Ties are broken by the number of connections between ranks of different hosts.
std::size_t load_between_hosts(const algorithms::ConfiguredAlgorithm& candidate,
                               algorithms::ScheduleSpec spec) {
  constexpr double kFine = 50;
  constexpr std::size_t kMostConnections = 1'000'000;
  spec.arguments = candidate.arguments;
  const std::vector<schedule::Schedule> schedules = algorithms::generate_all(*candidate.algorithm, spec);
  std::set<std::pair<int, int>> connections;
  for (const schedule::Schedule& schedule : schedules) {
    const int host = spec.hosts[static_cast<std::size_t>(schedule.rank)];
    for (const schedule::Step& step : schedule.steps) {
      if (step.kind == schedule::StepKind::send && spec.hosts[static_cast<std::size_t>(step.peer)] != host)
        connections.emplace(schedule.rank, step.peer);
    }
  }
  const double busiest = traffic(schedules, spec.hosts).from_host;
  return static_cast<std::size_t>(std::lround(busiest * kFine)) * kMostConnections + connections.size();
}

/// The fastest comes first in `all`. Among the algorithms predicted to be as fast, moves the one with the
/// least `trouble`, which the model does not know, to the front.
void settle_ties(std::vector<ScoredAlgorithm>& all,
                 const std::function<std::size_t(const algorithms::ConfiguredAlgorithm&)>& trouble) {
  const auto tied = [&](std::vector<ScoredAlgorithm>::iterator at) {
    return at != all.end() && at->seconds <= kModelNoise * all.front().seconds;
  };
  if (all.empty() || !tied(all.begin() + 1)) return;  // computing `trouble` takes long
  auto best = all.begin();
  std::size_t least = 0;
  for (auto at = all.begin(); tied(at); ++at) {
    const std::size_t of_this = trouble(at->configured);
    if (at != all.begin() && of_this >= least) continue;
    best = at;
    least = of_this;
  }
  if (best != all.begin()) std::rotate(all.begin(), best, best + 1);
}

}  // namespace

Result<algorithms::ConfiguredAlgorithm> Chooser::choose(const schedule::CallKey& key, std::uint64_t bytes,
                                                        std::string_view preferred) {
  auto picked = pick(key, bytes, preferred);
  if (!picked.ok()) return picked;
  return in_ring_order(std::move(picked).value());
}

Result<algorithms::ConfiguredAlgorithm> Chooser::pick(const schedule::CallKey& key, std::uint64_t bytes,
                                                      std::string_view preferred) {
  const DefaultArithmetic arithmetic;
  const auto fits = [&](const algorithms::ConfiguredAlgorithm& candidate) {
    algorithms::ScheduleSpec spec = common_spec(key.collective);
    spec.root = key.root;
    spec.arguments = candidate.arguments;
    return algorithms::supports(*candidate.algorithm, spec, key);
  };
  if (!key.algorithm.empty()) {
    auto wanted = algorithms::parse_algorithm(key.collective, key.algorithm);
    if (!wanted.ok()) return wanted;
    if (Status status = fits(*wanted); !status.ok()) return status;
    return wanted;
  }
  if (auto parsed = algorithms::parse_algorithm(key.collective, preferred); parsed.ok()) {
    if (fits(*parsed).ok()) return parsed;
  }
  const std::tuple demands{key.collective,  !key.commutative, key.is_custom(),  key.in_place,
                           key.is_uneven(), key.is_rounded(), size_class(bytes)};
  {
    const std::lock_guard lock(mutex_);
    const auto known = picks_.find(demands);
    if (known != picks_.end()) return known->second;
  }
  const std::uint64_t typical = bytes == 0 ? 0 : kOne << std::min(size_class(bytes), 62);
  std::vector<ScoredAlgorithm> all = ranking(key, typical, false);
  if (all.empty()) {
    return Status(Code::invalid_argument,
                  "no algorithm of " + std::string(schedule::name_of(key.collective)) + " fits");
  }
  const std::lock_guard lock(mutex_);
  return picks_.emplace(demands, std::move(all.front().configured)).first->second;
}

Result<Expectation> Chooser::expect(const schedule::CallKey& key, std::uint64_t bytes, const Cuts& cuts,
                                    std::string_view preferred) {
  const DefaultArithmetic arithmetic;
  auto picked = pick(key, bytes, preferred);
  if (!picked.ok()) return picked.status();
  Expectation expected{.configured = in_ring_order(*picked)};
  const schedule::SharedMemoryForm* form = form_of(*picked->algorithm, key);
  expected.in_shared_memory = form != nullptr;
  algorithms::ScheduleSpec spec = common_spec(key.collective);
  spec.arguments = expected.configured.arguments;
  if (form == nullptr) expected.most_sent = most_sent(*picked->algorithm, spec, bytes, cuts.block);

  const auto* by_size = situation_.table.times(situation_.setting(), spec.collective);
  const std::uint64_t largest = by_size == nullptr ? bytes : by_size->rbegin()->first;
  const Measured measured(by_size, std::min(bytes, largest));
  if (const auto seconds = timed(*picked, key, measured)) {
    const double times = static_cast<double>(bytes) / static_cast<double>(std::max(largest, kOne));
    expected.seconds = *seconds * std::max(times, 1.0);
    expected.measured = true;
  } else if (form != nullptr) {
    expected.seconds = predicted(*form, spec.size, bytes);
  } else {
    expected.seconds = interpolated(expected.configured, spec, bytes, cuts);
  }
  return expected;
}

double Chooser::interpolated(const algorithms::ConfiguredAlgorithm& candidate,
                             const algorithms::ScheduleSpec& spec, std::uint64_t bytes, const Cuts& cuts) {
  const auto at = [&](std::uint64_t size) {
    std::tuple key{spec.collective, candidate.name(), cuts.block, cuts.segment, size};
    {
      const std::lock_guard lock(mutex_);
      const auto known = predictions_.find(key);
      if (known != predictions_.end()) return known->second;
    }
    const double seconds = predicted(candidate, spec, size, cuts);
    const std::lock_guard lock(mutex_);
    if (predictions_.size() >= kMostPredictions) predictions_.clear();
    return predictions_.emplace(std::move(key), seconds).first->second;
  };
  if (bytes == 0) return at(0);
  const std::uint64_t upper = kOne << std::min(size_class(bytes), 62);
  const double most = at(upper);
  if (bytes >= upper) return most;
  const double least = std::min(at(upper / 2), most);
  const double way = static_cast<double>(bytes - upper / 2) / static_cast<double>(upper - upper / 2);
  return least + way * (most - least);
}

const schedule::SharedMemoryForm* Chooser::form_of(const algorithms::Algorithm& algorithm,
                                                   const schedule::CallKey& key) const {
  return situation_.shares_memory ? kolo::algorithms::form_of(algorithm, key) : nullptr;
}

std::optional<double> Chooser::timed(const algorithms::ConfiguredAlgorithm& candidate,
                                     const schedule::CallKey& key, const Measured& measured) const {
  // Times measured where ranks share memory are of runs there, and say nothing about messages.
  const bool is_other = candidate.algorithm->in_shared_memory && situation_.may_share_memory() &&
                        form_of(*candidate.algorithm, key) == nullptr;
  return is_other ? std::nullopt : measured.seconds(candidate.name());
}

std::vector<ScoredAlgorithm> Chooser::ranking(const schedule::CallKey& key, std::uint64_t bytes,
                                              bool with_all_times) const {
  const algorithms::ScheduleSpec asked = common_spec(key.collective);
  const std::vector<int> slow = slow_hosts(situation_.bandwidth);
  const Measured measured(situation_.table.times(situation_.setting(), key.collective), bytes);
  std::vector<ScoredAlgorithm> all;
  for (algorithms::ConfiguredAlgorithm& candidate : candidates(asked, key, slow, situation_.shares_memory)) {
    const bool in_shared_memory = form_of(*candidate.algorithm, key) != nullptr;
    const auto seconds = timed(candidate, key, measured);
    all.push_back({std::move(candidate), seconds.value_or(0), seconds.has_value(), in_shared_memory});
  }
  const bool is_decided = std::ranges::any_of(
      all, [](const ScoredAlgorithm& one) { return one.measured || one.in_shared_memory; });
  for (ScoredAlgorithm& one : all) {
    if (one.measured) continue;
    if (one.in_shared_memory) {
      one.seconds = predicted(*one.configured.algorithm->in_shared_memory, asked.size, bytes);
    } else if (with_all_times || !is_decided) {
      one.seconds = predicted(one.configured, asked, bytes, {.segment = situation_.model.segment_bytes});
    }
  }
  // A call runs in shared memory where it can: times of messages are not predicted then, unless all are asked
  // for.
  std::ranges::stable_sort(all, [&](const ScoredAlgorithm& a, const ScoredAlgorithm& b) {
    if (a.measured != b.measured) return a.measured;
    if (!with_all_times && !a.measured && a.in_shared_memory != b.in_shared_memory) return a.in_shared_memory;
    return a.seconds < b.seconds;
  });
  settle_ties(all, measured);
  const bool is_played = !asked.hosts.empty() && asked.size <= kMostPlayed;
  if (!is_played || all.empty() || all.front().measured) return all;
  // What the model does not know: flows that share a link disturb each other, and trees keep a slow link
  // waiting.
  settle_ties(all, [&](const algorithms::ConfiguredAlgorithm& candidate) {
    if (slow.empty()) return load_between_hosts(in_ring_order(candidate), asked);
    return std::size_t{!spares(candidate, asked, slow)};
  });
  return all;
}

double Chooser::predicted(const algorithms::ConfiguredAlgorithm& candidate, algorithms::ScheduleSpec spec,
                          std::uint64_t bytes, const Cuts& cuts) const {
  spec.arguments = in_ring_order(candidate).arguments;
  if (spec.size > kMostPlayed)
    return std::max(estimated(candidate, spec, bytes), work_of_cores(candidate, spec, bytes));
  const std::vector<schedule::Schedule> schedules = algorithms::generate_all(*candidate.algorithm, spec);
  CostModel model = situation_.model;
  model.segment_bytes = cuts.segment;
  return predict(schedules, schedule::even_parts(bytes, schedule::part_count(schedules[0]), cuts.block),
                 spec.hosts, model, situation_.bandwidth);
}

/// A read of one cache line of each other rank (if ranks share cores: the context switch to it). Then all
/// ranks' data is loaded and stored once, by all cores together.
double Chooser::predicted(const schedule::SharedMemoryForm& form, int ranks, std::uint64_t bytes) const {
  const CostModel& model = situation_.model;
  const double turns = std::max(1.0, ranks / std::max(model.cores, 1.0));
  // Results for all ranks move all of the data; copying or reducing alone moves all but one rank's part.
  const double share = form.writes_to_others() ? 1 : 1 - 1.0 / ranks;
  const double per_byte = form.reduces() ? model.reduce_per_byte : model.copy_per_byte;
  return turns * ((model.memory.latency + model.wake) / 2 + share * static_cast<double>(bytes) * per_byte);
}

/// If more ranks than cores share a host, its cores work for all their messages: no host is faster than that.
double Chooser::work_of_cores(const algorithms::ConfiguredAlgorithm& candidate,
                              const algorithms::ScheduleSpec& spec, std::uint64_t bytes) const {
  const CostModel& model = situation_.model;
  std::map<int, int> ranks;
  for (int rank = 0; rank < spec.size; ++rank)
    ++ranks[spec.hosts.empty() ? 0 : spec.hosts[static_cast<std::size_t>(rank)]];
  const auto largest = std::ranges::max_element(ranks, {}, [](const auto& host) { return host.second; });
  if (largest->second <= model.cores) return 0;
  // As if every rank did what the busiest one does: to count the messages of a thousand ranks would take
  // long.
  const algorithms::StepsAndBytes stated = candidate.algorithm->closed_form.of(spec);
  const double messages = static_cast<double>(stated.steps) * largest->second;
  const double sent = stated_bytes(*candidate.algorithm, spec, bytes) * largest->second;
  const LinkCost& link = model.memory;
  const bool is_long = sent > messages * link.longest_short;
  const double per_message = 2 * (link.overhead + (is_long ? link.long_overhead : 0)) + model.wake;
  const double per_byte = link.sender_per_byte + link.receiver_per_byte + model.reduce_per_byte;
  return (messages * per_message + sent * per_byte) / std::max(model.cores, 1.0);
}

/// The latencies of all steps in sequence, plus the busiest rank's bytes through its narrowest place.
double Chooser::estimated(const algorithms::ConfiguredAlgorithm& candidate,
                          const algorithms::ScheduleSpec& spec, std::uint64_t bytes) const {
  const CostModel& model = situation_.model;
  const algorithms::StepsAndBytes stated = candidate.algorithm->closed_form.of(spec);
  const auto all = static_cast<double>(bytes);
  const double sent = stated_bytes(*candidate.algorithm, spec, bytes);
  const auto steps = static_cast<double>(stated.steps);
  const auto per_step = [&](const LinkCost& link) {
    const bool is_long = sent > steps * link.longest_short;
    return link.latency + 2 * (link.overhead + (is_long ? link.long_overhead : 0));
  };
  const auto per_byte = [&](const LinkCost& link) {
    return std::max(link.sender_per_byte, link.receiver_per_byte + model.reduce_per_byte);
  };
  if (spec.hosts.empty()) {
    return steps * per_step(model.memory) +
           sent * std::max(model.memory.wire_per_byte, per_byte(model.memory));
  }
  // Only the ring of all ranks may be too long to be counted. In it, one rank of each host sends to the next
  // host.
  Traffic most{.from_host = sent / std::max(all, 1.0), .messages_between = stated.steps};
  most.between = most.inside = most.from_host;
  if (stated.steps * static_cast<std::uint64_t>(spec.size) <= kMostCounted)
    most = traffic(algorithms::generate_all(*candidate.algorithm, spec), spec.hosts);
  const double between = std::min(static_cast<double>(most.messages_between), steps);
  const double in_link =
      std::max(most.from_host * model.network.wire_per_byte, most.between * per_byte(model.network));
  const double in_host = per_byte(model.memory);
  return between * per_step(model.network) + (steps - between) * per_step(model.memory) +
         all * std::max(in_link + most.besides * in_host, most.inside * in_host);
}

algorithms::ConfiguredAlgorithm Chooser::in_ring_order(algorithms::ConfiguredAlgorithm configured) const {
  const algorithms::Algorithm& algorithm = *configured.algorithm;
  if (situation_.ring.empty() || algorithm.in_order == nullptr) return configured;
  const algorithms::ScheduleSpec spec{algorithm.collective, 0, situation_.size, 0, configured.arguments,
                                      situation_.hosts};
  return {&algorithm, algorithm.in_order(spec, situation_.ring)};
}

}  // namespace kolo::selection

#include "selection/chooser.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "schedule/lengths.hpp"
#include "selection/candidates.hpp"
#include "selection/measured.hpp"
#include "selection/predict.hpp"

namespace kolo {
namespace {

/// With more ranks the closed forms are asked instead of the schedules, which would take long to play.
constexpr int kMostPlayed = 128;
/// Measured times that differ by less are equal: no machine is so quiet.
constexpr double kNoise = 1.05;
/// Predicted times that differ by less are equal: the model, and what it was made from, are no better.
constexpr double kModelNoise = 1.1;

/// The power of two nearest to it in proportion, as its exponent; -1 for 0.
int size_class(std::uint64_t bytes) {
  return bytes == 0 ? -1 : static_cast<int>(std::lround(std::log2(static_cast<double>(bytes))));
}

/// Of those that were measured, and come first, the first becomes the one that does best at the sizes around,
/// among all that are as fast as the fastest but for noise.
void settle_ties(std::vector<Ranked>& all, const Measured& measured) {
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

/// What crosses the links between hosts: what share of the data leaves the busiest host, in fiftieths, and
/// then from how many ranks to how many others, each way.
std::size_t load_between_hosts(const Configured& candidate, ScheduleSpec spec) {
  constexpr double kFine = 50;
  constexpr std::size_t kMostConnections = 1'000'000;
  spec.arguments = candidate.arguments;
  std::set<std::pair<int, int>> connections;
  std::map<int, double> leaving;
  for (const Schedule& schedule : generate_all(*candidate.algorithm, spec)) {
    const int host = spec.hosts[static_cast<std::size_t>(schedule.rank)];
    for (const Step& step : schedule.steps) {
      if (step.kind != StepKind::send || spec.hosts[static_cast<std::size_t>(step.peer)] == host) continue;
      connections.emplace(schedule.rank, step.peer);
      leaving[host] += static_cast<double>(step.a.count) / static_cast<double>(part_count(schedule));
    }
  }
  double busiest = 0;
  for (const auto& [host, share] : leaving) busiest = std::max(busiest, share);
  return static_cast<std::size_t>(std::lround(busiest * kFine)) * kMostConnections + connections.size();
}

/// Of those that are predicted to be as fast as the fastest, which comes first, the one with the least
/// `trouble` that the model does not know takes its place.
void settle_ties(std::vector<Ranked>& all, const std::function<std::size_t(const Configured&)>& trouble) {
  const auto tied = [&](std::vector<Ranked>::iterator at) {
    return at != all.end() && at->seconds <= kModelNoise * all.front().seconds;
  };
  if (all.empty() || !tied(all.begin() + 1)) return;  // looking for trouble takes long
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

Result<Configured> Chooser::choose(const Choice& choice) {
  const Collective collective = choice.spec.collective;
  const auto fits = [&](const Configured& candidate) {
    ScheduleSpec spec = choice.spec;
    spec.arguments = candidate.arguments;
    return supports(*candidate.algorithm, spec, choice.demands);
  };
  if (!choice.wanted.empty()) {
    auto wanted = parse_algorithm(collective, choice.wanted);
    if (!wanted.ok()) return wanted;
    if (Status status = fits(*wanted); !status.ok()) return status;
    return in_ring_order(std::move(wanted).value());
  }
  if (auto preferred = parse_algorithm(collective, choice.preferred); preferred.ok()) {
    if (fits(*preferred).ok()) return in_ring_order(std::move(preferred).value());
  }
  const std::tuple key{collective,
                       choice.demands.rank_order,
                       choice.demands.custom,
                       choice.demands.in_place,
                       choice.demands.uneven,
                       choice.demands.rounded,
                       size_class(choice.bytes)};
  const auto known = picks_.find(key);
  if (known != picks_.end()) return known->second;
  const std::uint64_t typical =
      choice.bytes == 0 ? 0 : std::uint64_t{1} << std::min(size_class(choice.bytes), 62);
  std::vector<Ranked> all = ranking(choice.spec, choice.demands, typical);
  if (all.empty()) {
    return Status(Code::invalid_argument, "no algorithm of " + std::string(name_of(collective)) + " fits");
  }
  return picks_.emplace(key, in_ring_order(std::move(all.front().configured))).first->second;
}

std::vector<Ranked> Chooser::ranking(const ScheduleSpec& spec, const Demands& demands,
                                     std::uint64_t bytes) const {
  ScheduleSpec asked = spec;
  asked.hosts = situation_.hosts;
  asked.rank = asked.root = 0;  // all ranks look at the same schedules
  const std::vector<int> slow = slow_hosts(situation_.bandwidth);
  const Measured measured(situation_.table.times(situation_.setting(), spec.collective), bytes);
  std::vector<Ranked> all;
  for (Configured& candidate : candidates(asked, demands, slow)) {
    const auto timed = measured.seconds(candidate.name());
    const bool natively =
        situation_.shares_memory && candidate.algorithm->native && !demands.custom && !demands.rounded;
    const double seconds = timed      ? *timed
                           : natively ? predicted_natively(asked, bytes)
                                      : predicted(candidate, asked, bytes);
    all.push_back({std::move(candidate), seconds, timed.has_value(), natively});
  }
  // What the model says of messages does not compare with what it says of none: native comes first.
  std::ranges::stable_sort(all, [](const Ranked& a, const Ranked& b) {
    if (a.measured != b.measured) return a.measured;
    if (!a.measured && a.native != b.native) return a.native;
    return a.seconds < b.seconds;
  });
  settle_ties(all, measured);
  const bool is_played = !asked.hosts.empty() && asked.size <= kMostPlayed;
  if (!is_played || all.empty() || all.front().measured) return all;
  // What the model does not know: flows that share a link disturb each other, trees keep a slow link waiting.
  settle_ties(all, [&](const Configured& candidate) {
    if (slow.empty()) return load_between_hosts(in_ring_order(candidate), asked);
    return std::size_t{candidate.name().find("spared=") == std::string::npos};
  });
  return all;
}

double Chooser::predicted(const Configured& candidate, ScheduleSpec spec, std::uint64_t bytes) const {
  spec.arguments = in_ring_order(candidate).arguments;
  if (spec.size > kMostPlayed) return estimated(candidate, spec, bytes);
  const std::vector<Schedule> schedules = generate_all(*candidate.algorithm, spec);
  return predict(schedules, even_parts(bytes, part_count(schedules[0])), spec.hosts, situation_.model,
                 situation_.bandwidth);
}

/// A look at a cache line of each other rank, and every rank's data loaded and stored once, by all cores
/// together.
double Chooser::predicted_natively(const ScheduleSpec& spec, std::uint64_t bytes) const {
  const CostModel& model = situation_.model;
  const double turns = std::max(1.0, spec.size / std::max(model.cores, 1.0));
  // An all-reduce moves all data once more than there is to gather or to reduce.
  const double share = spec.collective == Collective::all_reduce ? 1 : 1 - 1.0 / spec.size;
  const double per_byte = is_reducing(spec.collective) ? model.reduce_per_byte : model.copy_per_byte;
  return turns * (model.memory.latency / 2 + share * static_cast<double>(bytes) * per_byte);
}

/// Steps one after the other, and the busiest rank's bytes through its narrowest place.
double Chooser::estimated(const Configured& candidate, const ScheduleSpec& spec, std::uint64_t bytes) const {
  const CostModel& model = situation_.model;
  const LinkCost& link = spec.hosts.empty() ? model.memory : model.network;
  const StepsAndBytes stated = candidate.algorithm->closed_form.of(spec);
  const std::uint32_t parts = part_count(candidate.algorithm->generate(spec));
  const double sent =
      parts == 0 ? 0
                 : static_cast<double>(stated.sent) * static_cast<double>(bytes) / static_cast<double>(parts);
  const auto steps = static_cast<double>(stated.steps);
  const bool is_long = sent > kShortMessage * steps;
  const double per_byte =
      std::max({link.wire_per_byte, link.sender_per_byte, link.receiver_per_byte + model.reduce_per_byte});
  return steps * (link.latency + 2 * (link.overhead + (is_long ? link.long_overhead : 0))) + sent * per_byte;
}

Configured Chooser::in_ring_order(Configured configured) const {
  if (situation_.ring.empty()) return configured;
  const auto joined = [](const std::vector<int>& numbers) {
    std::string text;
    for (const int number : numbers) text += (text.empty() ? "" : "-") + std::to_string(number);
    return text;
  };
  if (configured.algorithm->name == "ring" && configured.arguments.numbers("order").empty()) {
    configured.arguments.set("order", joined(situation_.ring));
  }
  if (configured.algorithm->name == "hierarchical" && configured.arguments.word("across", "ring") == "ring") {
    std::vector<int> hosts;  // the ranks of each follow one another
    for (const int rank : situation_.ring) {
      hosts.push_back(situation_.hosts.empty() ? 0 : situation_.hosts[static_cast<std::size_t>(rank)]);
    }
    hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
    configured.arguments.set("across", "ring+order=" + joined(hosts));
  }
  return configured;
}

}  // namespace kolo

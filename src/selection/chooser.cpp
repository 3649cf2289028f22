#include "selection/chooser.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

#include "schedule/lengths.hpp"
#include "selection/candidates.hpp"
#include "selection/predict.hpp"

namespace kolo {
namespace {

/// Beyond so many messages the closed form is asked instead of the schedules.
constexpr std::uint64_t kMostPlayed = 1u << 16;

/// The power of two nearest to it in proportion, as its exponent; -1 for 0.
int size_class(std::uint64_t bytes) {
  return bytes == 0 ? -1 : static_cast<int>(std::lround(std::log2(static_cast<double>(bytes))));
}

/// The times at the size nearest in proportion; null where there are none.
const TuningTable::Times* nearest(const TuningTable::BySize* by_size, std::uint64_t bytes) {
  const TuningTable::Times* best = nullptr;
  double least = 0;
  if (by_size == nullptr) return nullptr;
  const auto log = [](std::uint64_t n) {
    return std::log2(static_cast<double>(std::max<std::uint64_t>(n, 1)));
  };
  for (const auto& [size, times] : *by_size) {
    const double distance = std::abs(log(size) - log(bytes));
    if (best != nullptr && distance >= least) continue;
    best = &times;
    least = distance;
  }
  return best;
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
  const std::tuple key{collective, choice.demands.rank_order, choice.demands.in_place, choice.demands.uneven,
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
  const TuningTable::Times* times = nearest(
      situation_.table.times({situation_.links, layout_of(situation_.hosts, spec.size)}, spec.collective),
      bytes);
  std::vector<Ranked> all;
  for (Configured& candidate : candidates(asked, demands)) {
    const auto timed =
        times == nullptr ? TuningTable::Times::const_iterator{} : times->find(candidate.name());
    if (times != nullptr && timed != times->end()) {
      all.push_back({std::move(candidate), timed->second, true});
    } else {
      const double seconds = predicted(candidate, asked, bytes);
      all.push_back({std::move(candidate), seconds, false});
    }
  }
  std::ranges::stable_sort(all, [](const Ranked& a, const Ranked& b) {
    return a.measured != b.measured ? a.measured : a.seconds < b.seconds;
  });
  return all;
}

double Chooser::predicted(const Configured& candidate, ScheduleSpec spec, std::uint64_t bytes) const {
  spec.arguments = candidate.arguments;
  const CostModel& model = situation_.model;
  const StepsAndBytes stated = candidate.algorithm->closed_form.of(spec);
  const Schedule first = candidate.algorithm->generate(spec);
  const std::uint32_t parts = part_count(first);
  const auto part_bytes = parts == 0 ? 0 : bytes / parts;
  if (stated.steps * static_cast<std::uint64_t>(spec.size) > kMostPlayed) {
    const LinkCost& link = spec.hosts.empty() ? model.memory : model.network;
    return static_cast<double>(stated.steps) * (link.latency + 2 * link.overhead) +
           static_cast<double>(stated.sent * part_bytes) *
               (link.wire_per_byte + link.sender_per_byte + link.receiver_per_byte + model.reduce_per_byte);
  }
  std::vector<Schedule> schedules;
  for (spec.rank = 0; spec.rank < spec.size; ++spec.rank) {
    schedules.push_back(candidate.algorithm->generate(spec));
  }
  std::vector<std::uint64_t> all_parts(parts, part_bytes);
  if (parts > 0) all_parts[0] += bytes % parts;
  return predict(schedules, all_parts, spec.hosts, model);
}

Configured Chooser::in_ring_order(Configured configured) const {
  if (situation_.ring.empty() || configured.algorithm->name != "ring") return configured;
  std::string order;
  for (const int rank : situation_.ring) order += (order.empty() ? "" : "-") + std::to_string(rank);
  if (configured.arguments.numbers("order").empty()) configured.arguments.set("order", order);
  return configured;
}

}  // namespace kolo

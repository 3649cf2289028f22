#include "catalog/proof.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "schedule/lengths.hpp"

namespace kolo::cli {
namespace {

/// Eight ranks are on hosts of 3, 2 and 3.
std::vector<int> hosts_of(int ranks) {
  const int first = ranks < 6 ? ranks / 2 : ranks * 3 / 8;
  const int second = ranks < 6 ? ranks - first : ranks / 4;
  std::vector<int> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back(rank < first ? 0 : rank < first + second ? 1 : 2);
  return hosts;
}

/// Whether both have the same messages, in whatever order they leave.
bool have_same_messages(const std::vector<schedule::Schedule>& one,
                        const std::vector<schedule::Schedule>& other) {
  const auto same_step = [](const schedule::Step& a, const schedule::Step& b) {
    return a.kind == b.kind && a.peer == b.peer && a.dst == b.dst && a.a == b.a && a.b == b.b;
  };
  return std::ranges::equal(one, other, [&](const schedule::Schedule& a, const schedule::Schedule& b) {
    return std::ranges::equal(a.steps, b.steps, same_step);
  });
}

}  // namespace

std::string stated_text(const algorithms::ClosedForm& form, std::string_view text) {
  return (form.at_most ? "at most " : "") + std::string(text);
}

Proof prove(const algorithms::ConfiguredAlgorithm& configured, const algorithms::ScheduleSpec& spec,
            std::optional<std::uint64_t> count) {
  const algorithms::Algorithm& algorithm = *configured.algorithm;
  Proof proof;
  if (const Status status = algorithms::supports(algorithm, spec); !status.ok()) {
    proof.unable = status.message();
    return proof;
  }
  const std::vector<schedule::Schedule> schedules = algorithms::generate_all(algorithm, spec);
  const std::uint32_t parts = schedule::part_count(schedules[0]);
  const std::vector<std::uint64_t> counts = schedule::even_parts(count.value_or(parts), parts);
  const bool uneven = !counts.empty() && counts.front() != counts.back();
  const schedule::CallKey key{.parts = uneven ? counts : std::vector<std::uint64_t>()};
  if (const Status status = algorithms::supports(algorithm, spec, key); !status.ok()) {
    proof.unable = status.message();
    return proof;
  }
  proof.elements = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  proof.stated = algorithm.closed_form.of(spec);
  proof.at_most = algorithm.closed_form.at_most;
  const Status status = schedule::check_schedules(schedules, counts, algorithm.rank_ordered, &proof.totals);
  if (!status.ok()) {
    proof.refusal = status.message();
    return proof;
  }
  const std::vector<std::uint64_t> ones(parts, 1);
  const schedule::ScheduleTotals even =
      counts == ones ? proof.totals : schedule::count_totals(schedules, ones);
  proof.counted = {even.steps, even.max_sent};
  return proof;
}

algorithms::ScheduleSpec example_of(const algorithms::Algorithm& algorithm, int ranks) {
  const algorithms::ScheduleSpec plain{algorithm.collective, 0, ranks, 0, {}, {}};
  algorithms::ScheduleSpec hosted = plain;
  hosted.hosts = hosts_of(ranks);
  const bool serves_both =
      algorithms::supports(algorithm, plain).ok() && algorithms::supports(algorithm, hosted).ok();
  if (ranks < 4 || !serves_both) return plain;
  return have_same_messages(algorithms::generate_all(algorithm, plain),
                            algorithms::generate_all(algorithm, hosted))
             ? plain
             : hosted;
}

}  // namespace kolo::cli

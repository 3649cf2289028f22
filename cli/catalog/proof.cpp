#include "catalog/proof.hpp"

#include <numeric>

#include "schedule/lengths.hpp"

namespace kolo::cli {
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
  if (const Status status = algorithms::supports(algorithm, spec, {.uneven = uneven}); !status.ok()) {
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

}  // namespace kolo::cli

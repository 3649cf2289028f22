#include "selection/candidates.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace kolo {
namespace {

constexpr std::uint64_t kMostSteps = 1u << 15;

std::vector<Arguments> sparing(const Algorithm& algorithm, const ScheduleSpec& spec,
                               const std::vector<int>& slow_hosts) {
  if (slow_hosts.empty() || algorithm.sparing == nullptr) return {};
  return algorithm.sparing(spec, slow_hosts);
}

}  // namespace

std::vector<ConfiguredAlgorithm> candidates(const ScheduleSpec& spec, const Requirements& requirements,
                                            const std::vector<int>& slow_hosts, bool shares_memory) {
  std::vector<ConfiguredAlgorithm> result;
  const auto consider = [&](ConfiguredAlgorithm candidate) {
    ScheduleSpec asked = spec;
    asked.arguments = candidate.arguments;
    // Without the requirements first: objections are cheap to check, and the cost is stated only for calls
    // without one.
    if (!supports(*candidate.algorithm, asked).ok()) return;
    const std::uint64_t steps = candidate.algorithm->closed_form.of(asked).steps;
    const bool sends_none = shares_memory && form_of(*candidate.algorithm, requirements) != nullptr;
    if (!sends_none && !result.empty() && steps * static_cast<std::uint64_t>(spec.size) > kMostSteps) return;
    if (supports(*candidate.algorithm, asked, requirements).ok()) result.push_back(std::move(candidate));
  };
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != spec.collective) continue;
    consider({&algorithm});
    for (const std::string_view arguments : algorithm.tried) {
      const std::string text = std::string(algorithm.name) + ":" + std::string(arguments);
      consider(parse_algorithm(spec.collective, text).value());
    }
    for (const Arguments& arguments : sparing(algorithm, spec, slow_hosts)) consider({&algorithm, arguments});
  }
  return result;
}

bool spares(const ConfiguredAlgorithm& candidate, const ScheduleSpec& spec,
            const std::vector<int>& slow_hosts) {
  const auto all = sparing(*candidate.algorithm, spec, slow_hosts);
  return std::ranges::find(all, candidate.arguments) != all.end();
}

}  // namespace kolo

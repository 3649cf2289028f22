#include "selection/candidates.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace kolo::selection {
namespace {

constexpr std::uint64_t kMostSteps = 1u << 15;

std::vector<algorithms::Arguments> sparing(const algorithms::Algorithm& algorithm,
                                           const algorithms::ScheduleSpec& spec,
                                           const std::vector<int>& slow_hosts) {
  if (slow_hosts.empty() || algorithm.sparing == nullptr) return {};
  return algorithm.sparing(spec, slow_hosts);
}

}  // namespace

std::vector<algorithms::ConfiguredAlgorithm> candidates(const algorithms::ScheduleSpec& spec,
                                                        const schedule::CallKey& key,
                                                        const std::vector<int>& slow_hosts,
                                                        bool shares_memory) {
  std::vector<algorithms::ConfiguredAlgorithm> result;
  const auto consider = [&](algorithms::ConfiguredAlgorithm candidate) {
    algorithms::ScheduleSpec asked = spec;
    asked.arguments = candidate.arguments;
    // Without the key first: objections are cheap to check, and the cost is stated only for calls
    // without one.
    if (!algorithms::supports(*candidate.algorithm, asked).ok()) return;
    const std::uint64_t steps = candidate.algorithm->closed_form.of(asked).steps;
    const bool sends_none = shares_memory && algorithms::form_of(*candidate.algorithm, key) != nullptr;
    if (!sends_none && !result.empty() && steps * static_cast<std::uint64_t>(spec.size) > kMostSteps) return;
    if (algorithms::supports(*candidate.algorithm, asked, key).ok()) result.push_back(std::move(candidate));
  };
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
    if (algorithm.collective != spec.collective) continue;
    consider({&algorithm});
    for (const std::string_view arguments : algorithm.tried) {
      const std::string text = std::string(algorithm.name) + ":" + std::string(arguments);
      consider(algorithms::parse_algorithm(spec.collective, text).value());
    }
    for (const algorithms::Arguments& arguments : sparing(algorithm, spec, slow_hosts))
      consider({&algorithm, arguments});
  }
  return result;
}

bool spares(const algorithms::ConfiguredAlgorithm& candidate, const algorithms::ScheduleSpec& spec,
            const std::vector<int>& slow_hosts) {
  const auto all = sparing(*candidate.algorithm, spec, slow_hosts);
  return std::ranges::find(all, candidate.arguments) != all.end();
}

}  // namespace kolo::selection

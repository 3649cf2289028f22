#include "selection/candidates.hpp"

#include <array>
#include <string_view>

namespace kolo {
namespace {

/// Arguments worth trying besides the defaults: which is best depends on the size of the data.
constexpr std::array<std::string_view, 10> kTried = {"k_nomial:radix=2",
                                                     "k_nomial:radix=3",
                                                     "k_nomial:radix=8",
                                                     "chain:chunks=1",
                                                     "chain:chunks=16",
                                                     "chain:chunks=64",
                                                     "double_tree:chunks=1",
                                                     "double_tree:chunks=16",
                                                     "parameter_server:servers=2",
                                                     "hierarchical:across=recursive_doubling"};

constexpr std::uint64_t kMostSteps = 1u << 15;

}  // namespace

std::vector<Configured> candidates(const ScheduleSpec& spec, const Demands& demands) {
  std::vector<Configured> result;
  const auto consider = [&](Configured candidate) {
    ScheduleSpec asked = spec;
    asked.arguments = candidate.arguments;
    // Without the demands first: objections are cheap, and the cost is stated for what has none.
    if (!supports(*candidate.algorithm, asked).ok()) return;
    const std::uint64_t steps = candidate.algorithm->closed_form.of(asked).steps;
    if (!result.empty() && steps * static_cast<std::uint64_t>(spec.size) > kMostSteps) return;
    if (supports(*candidate.algorithm, asked, demands).ok()) result.push_back(std::move(candidate));
  };
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != spec.collective) continue;
    consider({&algorithm});
    for (const std::string_view text : kTried) {
      if (!text.starts_with(std::string(algorithm.name) + ":")) continue;
      auto tried = parse_algorithm(spec.collective, text);
      if (tried.ok()) consider(std::move(tried).value());
    }
  }
  return result;
}

}  // namespace kolo

#include "selection/candidates.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>

namespace kolo {
namespace {

/// Arguments worth trying besides the defaults: which are best depends on the size of the data.
constexpr std::array<std::string_view, 11> kTried = {"k_nomial:radix=2",
                                                     "k_nomial:radix=3",
                                                     "k_nomial:radix=8",
                                                     "chain:chunks=1",
                                                     "chain:chunks=16",
                                                     "chain:chunks=64",
                                                     "double_tree:chunks=1",
                                                     "double_tree:chunks=16",
                                                     "parameter_server:servers=2",
                                                     "hierarchical:across=recursive_doubling",
                                                     "hierarchical:inside=k_nomial"};

constexpr std::uint64_t kMostSteps = 1u << 15;

/// Algorithms of all_reduce in which slow hosts send the data once and receive it once.
std::vector<std::string> sparing(const ScheduleSpec& spec, const std::vector<int>& slow_hosts) {
  if (slow_hosts.empty() || spec.collective != Collective::all_reduce) return {};
  const std::set<int> hosts(spec.hosts.begin(), spec.hosts.end());
  const bool is_alone = hosts.size() == spec.hosts.size();  // each rank is alone on its host
  std::string spared;
  for (const int host : slow_hosts) {
    const auto number = is_alone ? std::ranges::find(spec.hosts, host) - spec.hosts.begin() : host;
    spared += (spared.empty() ? "" : "-") + std::to_string(number);
  }
  std::vector<std::string> result;
  for (const std::string chunks : {"1", "4", "16"}) {
    result.push_back(is_alone
                         ? "parameter_server:chunks=" + chunks + ":spared=" + spared
                         : "hierarchical:across=parameter_server+chunks=" + chunks + "+spared=" + spared);
  }
  return result;
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
  std::vector<std::string> tried_too = sparing(spec, slow_hosts);
  tried_too.insert(tried_too.begin(), kTried.begin(), kTried.end());
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != spec.collective) continue;
    consider({&algorithm});
    for (const std::string& text : tried_too) {
      if (!text.starts_with(std::string(algorithm.name) + ":")) continue;
      auto tried = parse_algorithm(spec.collective, text);
      if (tried.ok()) consider(std::move(tried).value());
    }
  }
  return result;
}

}  // namespace kolo

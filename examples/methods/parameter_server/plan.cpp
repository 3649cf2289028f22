#include "methods/parameter_server/plan.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <vector>

#include "kolo/error.hpp"

namespace kolo::methods {
namespace {

constexpr std::array kRuleNames = {"synchronous", "unbounded", "clocks", "versions"};

std::string key_of(int rank) {
  return "plan of rank " + std::to_string(rank);
}

std::string rank_name(std::size_t rank) {
  return "rank " + std::to_string(rank);
}

/// A value in the store: a problem's first character tells it from a plan's text.
constexpr char kProblem = '!';
constexpr char kPlan = '=';

std::vector<std::string> plans_of_all(Store& store, int size, std::chrono::nanoseconds timeout) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < size; ++rank) keys.push_back(key_of(rank));
  if (const auto missing = store.wait(keys, timeout); !missing.empty()) {
    std::string names;
    for (const std::string& key : missing) names += (names.empty() ? "" : ", ") + key;
    throw RendezvousError("parameter servers cannot begin: there is no " + names, {});
  }
  std::vector<std::string> plans;
  for (const std::string& key : keys) plans.push_back(store.get(key, timeout));
  return plans;
}

}  // namespace

std::string problem_with(const ParameterServerOptions& options, int size) {
  if (!options.problem.empty()) return options.problem;
  const std::string servers = std::to_string(options.servers);
  if (options.servers < 1) return servers + " servers: there is no server";
  if (options.servers >= size)
    return servers + " servers among " + std::to_string(size) + " ranks: there is no worker";
  if (options.staleness < 0)
    return "a staleness of " + std::to_string(options.staleness) + ": it is 0 or more";
  if (options.rule == ServerRule::versions) return {};
  const std::string rule = kRuleNames[static_cast<std::size_t>(options.rule)];
  if (options.rule != ServerRule::clocks && options.staleness > 0)
    return "a staleness of " + std::to_string(options.staleness) + " with the rule " + rule +
           ", which has no bound";
  if (options.late != LatePush::drop) return "late pushes are divided, and the rule " + rule + " has none";
  return {};
}

std::string text_of(const ParameterServerOptions& options) {
  return std::to_string(options.servers) + " servers\nthe rule " +
         kRuleNames[static_cast<std::size_t>(options.rule)] + "\na staleness of " +
         std::to_string(options.staleness) + "\nlate pushes " +
         (options.late == LatePush::drop ? "dropped" : "divided") + "\npushes of " +
         (options.push == PushKind::gradients ? "gradients" : "weights") + '\n';
}

void agree_on_plan(Store& store, int rank, int size, const PlanOfRank& mine,
                   std::chrono::nanoseconds timeout) {
  store.set(key_of(rank), mine.problem.empty() ? kPlan + mine.text : kProblem + mine.problem);
  const std::vector<std::string> plans = plans_of_all(store, size, timeout);
  for (std::size_t r = 0; r < plans.size(); ++r) {
    if (!plans[r].starts_with(kProblem)) continue;
    throw InvalidArgumentError("parameter servers cannot begin: " + rank_name(r) + ": " + plans[r].substr(1),
                               {.peer = static_cast<int>(r)});
  }
  const auto usual = std::ranges::max_element(
      plans, {}, [&](const std::string& plan) { return std::ranges::count(plans, plan); });
  const auto odd = std::ranges::find_if(plans, [&](const std::string& plan) { return plan != *usual; });
  if (odd == plans.end()) return;
  std::istringstream odd_lines(odd->substr(1)), usual_lines(usual->substr(1));
  std::string one, other;
  do {
    if (!std::getline(odd_lines, one)) one = "no further parameter";
    if (!std::getline(usual_lines, other)) other = "no further parameter";
  } while (one == other && (odd_lines || usual_lines));
  const auto rank_of = [&](auto plan) { return static_cast<std::size_t>(plan - plans.begin()); };
  throw MismatchError("parameter servers cannot begin: " + rank_name(rank_of(odd)) + " has " + one +
                          " where " + rank_name(rank_of(usual)) + " has " + other,
                      {.peer = static_cast<int>(rank_of(odd))});
}

}  // namespace kolo::methods

#include "gradients/static_graph.hpp"

#include <algorithm>
#include <ranges>

#include "kolo/error.hpp"

namespace kolo::train {
namespace {

std::string times(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " gradient" : " gradients");
}

}  // namespace

StaticGraph::StaticGraph(const std::vector<NamedTensor>& parameters, int rank)
    : parameters_(parameters), rank_(rank), counts_(parameters.size()), learned_(parameters.size()) {}

void StaticGraph::begin() {
  std::ranges::fill(counts_, std::size_t{0});
  last_.clear();
}

bool StaticGraph::accumulated(std::size_t parameter) {
  const std::size_t count = ++counts_[parameter];
  if (!is_learned_) {
    last_.push_back(parameter);
    return false;
  }
  if (count > learned_[parameter]) refuse(parameter, times(count), times(learned_[parameter]));
  return count == learned_[parameter];
}

std::vector<std::size_t> StaticGraph::end(const Flags& used) {
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (is_learned_ && counts_[i] != learned_[i]) refuse(i, times(counts_[i]), times(learned_[i]));
    if (is_learned_ && used[i] != used_[i])
      refuse(i, used[i] != 0 ? "a gradient under no_sync()" : "none under no_sync()",
             used[i] != 0 ? "none" : "one");
    // Another rank may have begun before this one had data.
    if (!used_anywhere_.empty() && used[i] > used_anywhere_[i]) refuse(i, "a gradient", "none on any rank");
  }
  if (is_learned_) return {};
  is_learned_ = true;
  learned_ = counts_;
  used_ = used;
  std::vector<std::size_t> order;
  for (const std::size_t parameter : last_ | std::views::reverse) {
    if (std::ranges::find(order, parameter) == order.end()) order.push_back(parameter);
  }
  std::ranges::reverse(order);
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] == 0) order.push_back(i);
  }
  return order;
}

void StaticGraph::refuse(std::size_t parameter, const std::string& now, const std::string& before) const {
  throw InvalidArgumentError(
      "rank " + std::to_string(rank_) + ": '" + parameters_[parameter].name + "' got " + now +
          " in one backward(), and " + before +
          " in the first one: with static_graph all must use the same parameters equally often",
      {});
}

}  // namespace kolo::train

#include "plan/training/way.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kolo::plan {
namespace {

/// By Divided.
constexpr const char* kNames[] = {"DistributedDataParallel", "ShardedDataParallel, optimizer_state",
                                  "ShardedDataParallel, gradients", "ShardedDataParallel, parameters"};

}  // namespace

std::vector<std::vector<int>> Way::data_groups() const {
  std::vector<std::vector<int>> groups;
  for (int stage = 0; stage < stages; ++stage) {
    for (int part = 0; part < tensor; ++part) {
      std::vector<int>& group = groups.emplace_back();
      for (int replica = 0; replica < data; ++replica) group.push_back(rank_of(replica, part, stage));
    }
  }
  return groups;
}

std::vector<std::vector<int>> Way::tensor_groups() const {
  std::vector<std::vector<int>> groups;
  for (int stage = 0; stage < stages; ++stage) {
    for (int replica = 0; replica < data; ++replica) {
      std::vector<int>& group = groups.emplace_back();
      for (int part = 0; part < tensor; ++part) group.push_back(rank_of(replica, part, stage));
    }
  }
  return groups;
}

std::vector<std::vector<int>> Way::pairs_after(int stage) const {
  std::vector<std::vector<int>> pairs;
  for (int replica = 0; replica < data; ++replica) {
    for (int part = 0; part < tensor; ++part)
      pairs.push_back({rank_of(replica, part, stage), rank_of(replica, part, stage + 1)});
  }
  return pairs;
}

std::string name_of(const Way& way) {
  if (way.tensor == 1 && way.stages == 1) return kNames[static_cast<std::size_t>(way.divided)];
  std::vector<std::string> parts;
  if (way.data > 1) parts.push_back(fmt::format("data {}", way.data));
  if (way.tensor > 1) parts.push_back(fmt::format("tensor {}", way.tensor));
  if (way.stages > 1) parts.push_back(fmt::format("pipeline {}", way.stages));
  return fmt::format("{}", fmt::join(parts, " x "));
}

std::vector<Way> ways_of(const ModelProfile& profile, int ranks) {
  const bool is_divisible = std::ranges::any_of(profile.layers, &ProfiledLayer::is_divisible);
  std::vector<Way> ways;
  for (const Divided divided :
       {Divided::nothing, Divided::optimizer_state, Divided::gradients, Divided::parameters})
    ways.push_back({.data = ranks, .divided = divided});
  for (int data = ranks - 1; data >= 1; --data) {
    if (ranks % data != 0) continue;
    for (int tensor = 1; tensor <= ranks / data; ++tensor) {
      const int stages = ranks / data / tensor;
      if (data * tensor * stages != ranks) continue;
      if (tensor > 1 && !is_divisible) continue;
      if (static_cast<std::size_t>(stages) > profile.layers.size()) continue;
      ways.push_back({.data = data, .tensor = tensor, .stages = stages});
    }
  }
  return ways;
}

}  // namespace kolo::plan

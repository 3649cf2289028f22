// The reasons of a ranking, in words.

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "plan/quantities.hpp"
#include "plan/training/ranking.hpp"

namespace kolo::plan {
namespace {

/// What takes less of a step is not worth words.
constexpr double kWorthSaying = 0.03;

std::string percent(double part, double whole) {
  return fmt::format("{:.0f}%", whole > 0 ? 100 * part / whole : 0);
}

std::string memory_reason(const Job& job, const WayMemory& memory) {
  std::vector<std::pair<double, std::string>> parts = {{memory.parameters, "parameters"},
                                                       {memory.gradients, "gradients"},
                                                       {memory.optimizer, "optimizer state"},
                                                       {memory.activations, "activations"}};
  const auto& largest = *std::ranges::max_element(parts);
  return fmt::format("does not fit into {}: {} of its {} are {}", format_bytes(*job.memory),
                     percent(largest.first, memory.total()), format_bytes(memory.total()), largest.second);
}

double gradient_bytes(const Job& job, const Way& way) {
  double most = 0;
  for (int stage = 0; stage < way.stages; ++stage) {
    double bytes = 0;
    for (const std::size_t i : way.layers_of(stage, job.profile.layers.size()))
      bytes += kBytesPerNumber * parameters_on_rank(job.profile, way, i);
    most = std::max(most, bytes);
  }
  return most;
}

/// What is sent in the way of computing.
std::string messages_of(const Job& job, const Way& way) {
  std::vector<std::string> parts;
  if (way.tensor > 1) {
    double sums = 0;
    for (const ProfiledLayer& layer : job.profile.layers) sums += 2 * layer.tensor_sums;
    parts.push_back(
        fmt::format("sums of {} of activations", format_bytes(sums * job.batches(way) * way.micro_batches)));
  }
  if (way.stages > 1) parts.push_back("messages between stages");
  if (way.data > 1) {
    const std::string bytes = format_bytes(gradient_bytes(job, way));
    parts.push_back(way.divided == Divided::nothing
                        ? "averages of " + bytes + " of gradients"
                        : "gathers of " + bytes + " of parameters and averages of their gradients");
  }
  std::string text = parts.front();
  for (std::size_t i = 1; i < parts.size(); ++i) text += (i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return text;
}

/// How many times the mean the slowest stage computes.
double imbalance(const Job& job, const Way& way) {
  double slowest = 0, all = 0;
  for (int stage = 0; stage < way.stages; ++stage) {
    double seconds = 0;
    for (const std::size_t i : way.layers_of(stage, job.profile.layers.size())) {
      const ProfiledLayer& layer = job.profile.layers[i];
      seconds += (layer.forward + layer.backward) / (layer.is_divisible() ? way.tensor : 1);
    }
    slowest = std::max(slowest, seconds);
    all += seconds;
  }
  return all > 0 ? slowest * way.stages / all : 1;
}

}  // namespace

std::string reason_of(const Job& job, const RankedWay& ranked) {
  const auto& [way, time, memory, fits, unused] = ranked;
  if (!fits) return memory_reason(job, memory);
  const double most = std::max({time.communication, time.waiting, time.repeated});
  if (most < kWorthSaying * time.step)
    return fmt::format("computes {} of the step", percent(time.computing, time.step));
  if (most == time.communication)
    return percent(most, time.step) + " of the step waits for " + messages_of(job, way);
  if (most == time.repeated) {
    return fmt::format("{} of the step is layers that all {} ranks of a group compute alike",
                       percent(most, time.step), way.tensor);
  }
  return fmt::format(
      "stages wait {} of the step for each other: {} micro-batches, the slowest stage {:.2f} of the mean",
      percent(most, time.step), way.micro_batches, imbalance(job, way));
}

}  // namespace kolo::plan

#include "kolo/train/stage_partition.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "kolo/error.hpp"

namespace kolo {
namespace {

/// Of the output of one layer, sent on or sent back as its gradient.
double transfer_seconds(const LayerCost& layer, const TransferCost& transfer) {
  return transfer.latency_s + static_cast<double>(layer.output_bytes) / transfer.bytes_per_second;
}

/// Of a stage: what it sends over its two borders.
double border_seconds(std::span<const LayerCost> layers, std::int64_t begin, std::int64_t end,
                      const TransferCost& transfer) {
  double seconds = 0;
  if (begin > 0) seconds += transfer_seconds(layers[static_cast<std::size_t>(begin - 1)], transfer);
  if (end < static_cast<std::int64_t>(layers.size()))
    seconds += transfer_seconds(layers[static_cast<std::size_t>(end - 1)], transfer);
  return seconds;
}

void require_time(double seconds, const std::string& what) {
  if (seconds >= 0 && std::isfinite(seconds)) return;
  throw InvalidArgumentError(what + " is " + std::to_string(seconds) + " s: it is finite and not negative",
                             {});
}

void require_costs(std::span<const LayerCost> layers, const TransferCost& transfer) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    require_time(layers[i].forward_s, "forward of layer " + std::to_string(i));
    require_time(layers[i].backward_s, "backward of layer " + std::to_string(i));
  }
  require_time(transfer.latency_s, "the latency of a transfer");
  if (!(transfer.bytes_per_second > 0)) {
    throw InvalidArgumentError(
        "a transfer of " + std::to_string(transfer.bytes_per_second) + " bytes per second: it is above 0",
        {});
  }
}

}  // namespace

double stage_seconds(std::span<const LayerCost> layers, std::int64_t begin, std::int64_t end,
                     const TransferCost& transfer) {
  if (begin < 0 || begin >= end || end > static_cast<std::int64_t>(layers.size())) {
    throw InvalidArgumentError("there is no stage from layer " + std::to_string(begin) + " to " +
                                   std::to_string(end) + " of " + std::to_string(layers.size()) + " layers",
                               {});
  }
  double seconds = border_seconds(layers, begin, end, transfer);
  for (std::int64_t i = begin; i < end; ++i) {
    const LayerCost& layer = layers[static_cast<std::size_t>(i)];
    seconds += layer.forward_s + layer.backward_s;
  }
  return seconds;
}

Partition partition(std::span<const LayerCost> layers, int stages, const TransferCost& transfer) {
  const auto count = static_cast<std::int64_t>(layers.size());
  if (stages < 1 || count < stages) {
    throw InvalidArgumentError(
        std::to_string(count) + " layers cannot be cut into " + std::to_string(stages) + " stages", {});
  }
  require_costs(layers, transfer);
  std::vector<double> before(static_cast<std::size_t>(count) + 1, 0);  // of all layers up to each
  for (std::size_t i = 0; i < layers.size(); ++i)
    before[i + 1] = before[i] + layers[i].forward_s + layers[i].backward_s;
  const auto seconds = [&](std::int64_t begin, std::int64_t end) {
    return before[static_cast<std::size_t>(end)] - before[static_cast<std::size_t>(begin)] +
           border_seconds(layers, begin, end, transfer);
  };
  struct Best {
    double slowest = std::numeric_limits<double>::infinity();
    std::int64_t begin = 0;  ///< of the last stage
  };
  // By number of stages and of layers, from the first ones.
  const auto width = static_cast<std::size_t>(count) + 1;
  std::vector<std::vector<Best>> best(static_cast<std::size_t>(stages) + 1, std::vector<Best>(width));
  best[0][0].slowest = 0;
  for (std::int64_t cut = 1; cut <= stages; ++cut) {
    for (std::int64_t end = cut; end <= count - (stages - cut); ++end) {
      Best& here = best[static_cast<std::size_t>(cut)][static_cast<std::size_t>(end)];
      for (std::int64_t begin = cut - 1; begin < end; ++begin) {
        const double others =
            best[static_cast<std::size_t>(cut) - 1][static_cast<std::size_t>(begin)].slowest;
        const double slowest = std::max(others, seconds(begin, end));
        if (slowest < here.slowest) here = {slowest, begin};
      }
    }
  }
  Partition result;
  result.slowest_s = best.back().back().slowest;
  std::int64_t end = count;
  for (auto cut = static_cast<std::size_t>(stages); cut > 1; --cut) {
    end = best[cut][static_cast<std::size_t>(end)].begin;
    result.borders.push_back(end);
  }
  std::ranges::reverse(result.borders);
  return result;
}

}  // namespace kolo

#include "kolo/train/partition.hpp"

#include <algorithm>
#include <string>

#include "kolo/error.hpp"

namespace kolo {
namespace {

/// Of the output of one layer, sent on or sent back as its gradient.
double transfer_seconds(const LayerCost& layer, const TransferCost& transfer) {
  return transfer.latency_s + static_cast<double>(layer.output_bytes) / transfer.bytes_per_second;
}

}  // namespace

double stage_seconds(std::span<const LayerCost> layers, std::int64_t begin, std::int64_t end,
                     const TransferCost& transfer) {
  double seconds = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    const LayerCost& layer = layers[static_cast<std::size_t>(i)];
    seconds += layer.forward_s + layer.backward_s;
  }
  if (begin > 0) seconds += transfer_seconds(layers[static_cast<std::size_t>(begin - 1)], transfer);
  if (end < static_cast<std::int64_t>(layers.size()))
    seconds += transfer_seconds(layers[static_cast<std::size_t>(end - 1)], transfer);
  return seconds;
}

Partition partition(std::span<const LayerCost> layers, int stages, const TransferCost& transfer) {
  const auto count = static_cast<std::int64_t>(layers.size());
  if (stages < 1 || count < stages) {
    throw InvalidArgument(
        std::to_string(count) + " layers cannot be cut into " + std::to_string(stages) + " stages", {});
  }
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
        const double before =
            best[static_cast<std::size_t>(cut) - 1][static_cast<std::size_t>(begin)].slowest;
        const double slowest = std::max(before, stage_seconds(layers, begin, end, transfer));
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

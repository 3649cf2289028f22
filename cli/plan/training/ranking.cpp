#include "plan/training/ranking.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "plan/training/group_prices.hpp"

namespace kolo::plan {
namespace {

/// More are not faster: (p - 1) / m of the step is lost by then to a pipeline's ends.
constexpr std::uint64_t kMicroBatchesPerStage = 16;

std::vector<int> divisors(std::uint64_t number, std::uint64_t limit) {
  std::vector<int> found;
  for (std::uint64_t divisor = 1; divisor <= std::min(number, limit); ++divisor) {
    if (number % divisor == 0) found.push_back(static_cast<int>(divisor));
  }
  return found;
}

/// What is worth trying, in ascending order.
std::vector<int> micro_batches_of(const Job& job, const Way& way) {
  if (way.divided != Divided::nothing) return {1};
  const std::uint64_t samples = job.samples / static_cast<std::uint64_t>(way.data);
  if (way.stages == 1) return job.memory ? divisors(samples, samples) : std::vector<int>{1};
  if (job.micro_batches) return {*job.micro_batches};
  return divisors(samples, kMicroBatchesPerStage * static_cast<std::uint64_t>(way.stages));
}

RankedWay rank(const Job& job, Way way, GroupPrices& prices) {
  way.first_layers = borders_of(job, way, prices);
  RankedWay ranked;
  ranked.memory = memory_of(job, way);
  ranked.fits = !job.memory || ranked.memory.total() <= *job.memory;
  ranked.way = std::move(way);
  return ranked;
}

bool is_better(const RankedWay& a, const RankedWay& b) {
  if (a.fits != b.fits) return a.fits;
  return a.fits ? a.time.step < b.time.step : a.memory.total() < b.memory.total();
}

RankedWay best_of(const Job& job, Way way, GroupPrices& prices) {
  RankedWay best;
  bool has_one = false;
  for (const int micro_batches : micro_batches_of(job, way)) {
    way.micro_batches = micro_batches;
    RankedWay ranked = rank(job, way, prices);
    const bool is_enough = way.stages == 1 && ranked.fits;
    ranked.time = time_of(job, ranked.way, prices);
    if (!std::exchange(has_one, true) || is_better(ranked, best)) best = std::move(ranked);
    if (is_enough) break;
  }
  return best;
}

}  // namespace

std::vector<RankedWay> ranking_of(const Job& job) {
  GroupPrices prices(job.cluster);
  std::vector<RankedWay> ranking;
  for (Way& way : ways_of(job.profile, job.cluster.ranks()))
    ranking.push_back(best_of(job, std::move(way), prices));
  std::ranges::stable_sort(ranking, [](const RankedWay& a, const RankedWay& b) {
    return a.fits != b.fits ? a.fits : a.time.step < b.time.step;
  });
  for (RankedWay& ranked : ranking) ranked.reason = reason_of(job, ranked);
  return ranking;
}

}  // namespace kolo::plan

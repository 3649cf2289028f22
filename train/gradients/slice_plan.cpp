#include "gradients/slice_plan.hpp"

#include <algorithm>
#include <optional>

namespace kolo::train {

std::vector<std::uint64_t> plan_slices(std::span<const SlicedBucket> buckets, double margin) {
  std::vector<std::uint64_t> left;
  for (const SlicedBucket& bucket : buckets) left.push_back(bucket.slices);
  std::vector<std::uint64_t> plan;
  double now = 0;
  while (true) {
    std::optional<std::size_t> soonest_used, first_ready;
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      if (left[i] == 0) continue;
      if (!first_ready || buckets[i].ready < buckets[*first_ready].ready) first_ready = i;
      if (buckets[i].ready + margin > now) continue;
      if (!soonest_used || buckets[i].use < buckets[*soonest_used].use) soonest_used = i;
    }
    if (!first_ready) return plan;
    const std::size_t next = soonest_used.value_or(*first_ready);
    now = std::max(now, buckets[next].ready) + buckets[next].slice_seconds;
    plan.push_back(next);
    --left[next];
  }
}

}  // namespace kolo::train

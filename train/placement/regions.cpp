#include "placement/regions.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>
#include <utility>

#include "kolo/error.hpp"

namespace kolo::train {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 56;

bool is_within(const Slice& slice, std::int64_t count) {
  return slice.begin >= 0 && slice.length >= 0 && slice.begin <= count && slice.length <= count - slice.begin;
}

/// Throws unless slices, sorted, follow each other from 0 to `count`. `what` begins the texts.
void require_cover(const std::vector<std::pair<Slice, int>>& slices, std::int64_t count,
                   const std::string& what, const std::string& noun) {
  std::int64_t at = 0;
  int before = 0;
  const auto refuse = [&](std::int64_t end, const std::string& text) {
    throw InvalidArgumentError(what + ' ' + std::to_string(at) + " to " + std::to_string(end) + text, {});
  };
  for (const auto& [slice, rank] : slices) {
    if (slice.begin > at) refuse(slice.begin, " are on no " + noun);
    if (slice.begin < at) {
      const std::int64_t end = std::exchange(at, slice.begin);
      refuse(std::min(end, slice.end()), " are in different regions of " + noun + "s " +
                                             std::to_string(before) + " and " + std::to_string(rank));
    }
    at = slice.end();
    before = rank;
  }
  if (at < count) refuse(count, " are on no " + noun);
}

}  // namespace

std::int64_t element_count(const Sizes& sizes) {
  std::int64_t result = 1;
  for (const std::int64_t size : sizes) {
    if (size < 0 || (size > 0 && result > kMostElements / size))
      throw InvalidArgumentError("a tensor has sizes out of range", {});
    result *= size;
  }
  return result;
}

Sizes cut_sizes(const Sizes& whole, const Region& region) {
  Sizes sizes = whole;
  if (region.cut) sizes[static_cast<std::size_t>(region.dimension)] = region.cut->length;
  return sizes;
}

Slice cut_of(const Sizes& whole, const Region& region) {
  if (region.cut) return *region.cut;
  return {0, whole.empty() ? 1 : whole[static_cast<std::size_t>(region.dimension)]};
}

Slice range_of(const Sizes& whole, const Region& region) {
  return region.range ? *region.range : Slice{0, element_count(cut_sizes(whole, region))};
}

void require_region(const std::string& name, const Sizes& whole, const Sizes& order, const Region& region) {
  const auto dimensions = static_cast<std::int64_t>(whole.size());
  Sizes sorted = order, all(whole.size());
  std::ranges::sort(sorted);
  std::iota(all.begin(), all.end(), std::int64_t{0});
  const bool has_dimension =
      region.dimension >= 0 && region.dimension < std::max<std::int64_t>(dimensions, 1);
  if (!has_dimension || (region.cut && dimensions == 0) ||
      !is_within(cut_of(whole, region), cut_of(whole, {.dimension = region.dimension}).length) ||
      !is_within(range_of(whole, region), element_count(cut_sizes(whole, region))) ||
      (!order.empty() && sorted != all))
    throw InvalidArgumentError("the region of '" + name + "' is not within it", {});
}

void order_regions(const std::string& name, const Sizes& whole, std::vector<HeldRegion>& regions,
                   const std::string& noun) {
  const auto key = [&](const HeldRegion& one) {
    const Slice cut = cut_of(whole, one.region);
    return std::tuple(cut.begin, cut.length, range_of(whole, one.region).begin);
  };
  std::ranges::stable_sort(regions, std::less<>(), key);
  if (element_count(whole) == 0) return;
  std::int64_t dimension = 0;
  for (const HeldRegion& one : regions) {
    if (one.region.cut) dimension = one.region.dimension;
  }
  std::vector<std::pair<Slice, int>> cuts;
  for (std::size_t i = 0; i < regions.size();) {
    const Region& first = regions[i].region;
    const Slice cut = cut_of(whole, first);
    if (first.cut && first.dimension != dimension)
      throw InvalidArgumentError('\'' + name + "' is cut along two dimensions", {});
    cuts.emplace_back(cut, regions[i].ranks.front());
    std::vector<std::pair<Slice, int>> ranges;
    for (; i < regions.size() && cut_of(whole, regions[i].region) == cut; ++i)
      ranges.emplace_back(range_of(whole, regions[i].region), regions[i].ranks.front());
    require_cover(ranges, element_count(cut_sizes(whole, first)), "of '" + name + "', elements", noun);
  }
  require_cover(cuts, cut_of(whole, {.dimension = dimension}).length,
                "of '" + name + "', dimension " + std::to_string(dimension) + ", indices", noun);
}

}  // namespace kolo::train

// Regions of a whole tensor: what they cut out, and the proof that they cover it. Needs no libtorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kolo/train/slice.hpp"

namespace kolo::train {

using Sizes = std::vector<std::int64_t>;

/// Throws InvalidArgumentError for a negative size, and for more elements than a file may have.
std::int64_t element_count(const Sizes& sizes);
/// The sizes of what a region cuts out, its indices along its dimension, and its elements.
Sizes cut_sizes(const Sizes& whole, const Region& region);
Slice cut_of(const Sizes& whole, const Region& region);
Slice range_of(const Sizes& whole, const Region& region);

/// Throws InvalidArgumentError where the region is not within the sizes, or `order` is not empty and no order
/// of dimensions.
void require_region(const std::string& name, const Sizes& whole, const Sizes& order, const Region& region);
/// Sorts regions by their elements. Throws InvalidArgumentError where they leave a hole or overlap. `noun`:
/// what its text calls the holders of regions, "rank 1".
void order_regions(const std::string& name, const Sizes& whole, std::vector<HeldRegion>& regions,
                   const std::string& noun = "rank");

}  // namespace kolo::train

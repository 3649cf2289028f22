// In which order the slices of buckets are averaged where the next forward waits for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kolo::train {

/// No slice is longer: a bucket that is needed sooner waits for those that are under way.
constexpr std::uint64_t kSliceBytes = 4u << 20;

/// A bucket in a step.
struct SlicedBucket {
  std::uint64_t slices = 1;
  double slice_seconds = 0;  ///< that each takes on the links
  double ready = 0;          ///< seconds from the begin of backward until its gradients are there
  std::size_t use = 0;       ///< its place in the order in which forward first uses the buckets
};

/// The buckets whose slices follow one another, a number for each slice. Whenever the links are free, the
/// bucket goes on that is ready and used soonest. One that overtakes another has to be ready for `margin`
/// seconds by then: what is late in a step holds up all that is planned behind it.
std::vector<std::uint64_t> plan_slices(std::span<const SlicedBucket> buckets, double margin);

}  // namespace kolo::train

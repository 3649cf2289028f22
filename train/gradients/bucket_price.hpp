// BucketPrice: how long averaging a bucket takes, from measured buckets.
#pragma once

#include <cstdint>
#include <span>

namespace kolo::train {

/// A line: latency + bytes / bandwidth.
struct BucketPrice {
  double latency = 0;   ///< seconds a bucket
  double per_byte = 0;  ///< seconds

  double of(std::uint64_t bytes) const { return latency + per_byte * static_cast<double>(bytes); }
};

/// Buckets that were averaged without a pause: while one is under way, a later one may take part of its
/// bandwidth, so that only their time together says something.
struct BusyTime {
  double buckets = 1;
  double bytes = 0;  ///< of all of them
  double seconds = 0;
};

/// The price with which a small and a large bucket take the times given.
BucketPrice line_through(const BusyTime& small, const BusyTime& large);

/// The price that has the least squares of relative errors of the measured times. `expected` is what a model
/// says without them: its latency is the least that is believed, as a model underestimates short calls and a
/// fit to long buckets may miss by more. Where mean sizes lie too close together to tell latency from
/// bandwidth, `expected` is scaled as a whole. Measurements without bytes or time are left out; without any,
/// `expected` is the answer.
BucketPrice fit_price(std::span<const BusyTime> measured, const BucketPrice& expected);

}  // namespace kolo::train

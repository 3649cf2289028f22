#include "gradients/bucket_price.hpp"

#include <algorithm>

namespace kolo::train {
namespace {

/// Sizes that differ by less say nothing about the latency.
constexpr double kLeastSpread = 4;
/// Clocks of different ranks miss a short time by as much as a long one: errors relative to a time count as
/// those of one that is longer by this part of the longest.
constexpr double kBlur = 0.1;

}  // namespace

BucketPrice line_through(const BusyTime& small, const BusyTime& large) {
  if (large.bytes <= small.bytes) return {small.seconds, 0};
  const double per_byte = std::max(0.0, large.seconds - small.seconds) / (large.bytes - small.bytes);
  return {std::max(0.0, small.seconds - per_byte * small.bytes), per_byte};
}

BucketPrice fit_price(std::span<const BusyTime> measured, const BucketPrice& expected) {
  double longest = 0;
  for (const BusyTime& busy : measured) longest = std::max(longest, busy.seconds);
  // Each divided by the blurred time: n buckets, b bytes, t seconds, e the expected seconds.
  double nn = 0, nb = 0, bb = 0, nt = 0, bt = 0, ee = 0, et = 0;
  double least = 0, most = 0;  // mean bytes of a bucket
  for (const auto& [buckets, bytes, seconds] : measured) {
    if (!(bytes > 0) || !(seconds > 0)) continue;
    const double weight = 1 / (seconds + kBlur * longest);
    const double n = buckets * weight, b = bytes * weight, t = seconds * weight;
    const double e = expected.latency * n + expected.per_byte * b;
    nn += n * n;
    nb += n * b;
    bb += b * b;
    nt += n * t;
    bt += b * t;
    ee += e * e;
    et += e * t;
    const double size = bytes / buckets;
    least = most > 0 ? std::min(least, size) : size;
    most = std::max(most, size);
  }
  if (!(most > 0)) return expected;
  if (most < kLeastSpread * least) {
    if (!(ee > 0)) return {0, bt / bb};
    return {expected.latency * et / ee, expected.per_byte * et / ee};
  }
  const double determinant = nn * bb - nb * nb;
  const double fitted = determinant > 0 ? (nt * bb - bt * nb) / determinant : 0;
  const double latency = std::max(fitted, expected.latency);
  return {latency, std::max(0.0, (bt - latency * nb) / bb)};
}

}  // namespace kolo::train

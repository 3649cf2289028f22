// Where buckets of gradients end: by their sizes, or where the last one is averaged earliest.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kolo/dtype.hpp"

namespace kolo::train {

struct ReadyGradient {
  std::uint64_t bytes;
  DType dtype;
  double ready = 0;  ///< seconds since some moment before all of them
};

/// Fills buckets with parameters in `order` (that in which their gradients are expected), one open bucket per
/// dtype; a bucket is closed once it holds `first_bytes` (the first of its dtype) or `bytes` (all others) or
/// more. Returns the parameters of each bucket, the buckets in the order in which they will be complete.
/// `order` must hold each index of `parameters` once. Pure: ranks that agree on the arguments agree on the
/// result.
///
/// The first bucket is small so that communication starts early in backward, as in PyTorch (Li et al.,
/// "PyTorch Distributed", VLDB 2020).
std::vector<std::vector<std::size_t>> assign_buckets(std::span<const ReadyGradient> parameters,
                                                     std::span<const std::size_t> order,
                                                     std::uint64_t first_bytes, std::uint64_t bytes);

/// The same with given borders: neighbours in `order` up to each of `ends`, one bucket for each dtype among
/// them.
std::vector<std::vector<std::size_t>> assign_buckets(std::span<const ReadyGradient> parameters,
                                                     std::span<const std::size_t> order,
                                                     std::span<const std::size_t> ends);

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

struct Borders {
  std::vector<std::size_t> ends;  ///< of each group of neighbours, one past its last gradient
  double end = 0;                 ///< when the last bucket is averaged, in the clock of `ready`
};

/// A group takes no further gradient once it holds so many bytes.
struct GroupLimits {
  std::uint64_t first = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t rest = std::numeric_limits<std::uint64_t>::max();
};

/// Cuts gradients, which come in the order in which they are ready, into groups of neighbours; a group is one
/// bucket for each dtype in it. Buckets are averaged one after another: a group starts when its last gradient
/// is ready and the group before is done, and takes the sum of its buckets' prices. Finds the earliest end of
/// the last group by dynamic programming over the number of groups and of gradients, and of all borders whose
/// end is at most `slack` of the exposed time (from the last gradient's readiness to the end) later than that
/// those with the fewest groups. The fewest groups start latest and leave no time to spare where averaging
/// takes longer than expected: `limits` do.
///
/// Exact for up to `most_pieces` gradients. Where there are more, small neighbours stay together first, and
/// no border comes between them. Takes most_pieces^3 / 6 steps at most.
Borders find_borders(std::span<const ReadyGradient> gradients, const BucketPrice& price,
                     const GroupLimits& limits = {}, double slack = 0, std::size_t most_pieces = 192);

/// The end of the last bucket with given borders, by the same model.
double end_of(std::span<const ReadyGradient> gradients, std::span<const std::size_t> ends,
              const BucketPrice& price);

}  // namespace kolo::train

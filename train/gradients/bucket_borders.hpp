// Bucket borders: which gradients travel together so that the last one is averaged earliest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "gradients/bucket_price.hpp"
#include "kolo/dtype.hpp"

namespace kolo::train {

struct ReadyGradient {
  std::uint64_t bytes;
  DType dtype;
  double ready;  ///< seconds since some moment before all of them
};

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

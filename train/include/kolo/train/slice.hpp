// Slices: which part of a whole each rank of a group holds. Needs no libtorch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace kolo {

/// `length` of the elements of a whole, from `begin` on.
struct Slice {
  std::int64_t begin = 0;   ///< number of the first element, from 0
  std::int64_t length = 0;  ///< number of elements

  /// Number of the element behind the last one.
  std::int64_t end() const noexcept { return begin + length; }
  /// Whether both are the same part.
  bool operator==(const Slice&) const noexcept = default;
};

/// The part of a whole parameter that one rank holds: all of it, or its slice along a dimension (a layer that
/// is divided among a tensor group), or a range of elements of either (a shard).
struct Region {
  std::int64_t dimension = 0;     ///< along which `cut` is taken
  std::optional<Slice> cut = {};  ///< the indices along `dimension`; nothing: all of them
  std::optional<Slice> range =
      {};  ///< elements of what is cut, in the order in which they lie in memory; nothing: all

  /// Whether both are the same part.
  bool operator==(const Region&) const noexcept = default;
};

/// A region, and the ranks that have it.
struct HeldRegion {
  Region region = {};           ///< `cut` and `range` are set where they are not all that there is
  std::vector<int> ranks = {};  ///< in rising order

  /// Whether both are the same.
  bool operator==(const HeldRegion&) const noexcept = default;
};

/// What rank `rank` of `ranks` holds of `whole` elements. Slices follow each other in the order of the ranks
/// and are equally long; where `ranks` does not divide `whole`, the first ones have one element more. Throws
/// InvalidArgumentError for a negative `whole` and a rank that is none.
Slice slice_of(std::int64_t whole, int rank, int ranks);
/// The lengths of all ranks' slices, in the order of the ranks: see slice_of(), also for what it throws.
std::vector<std::int64_t> slice_lengths(std::int64_t whole, int ranks);

}  // namespace kolo

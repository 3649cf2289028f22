#include "kolo/train/slice.hpp"

#include <algorithm>
#include <string>

#include "kolo/error.hpp"

namespace kolo {

Slice slice_of(std::int64_t whole, int rank, int ranks) {
  if (whole < 0 || ranks < 1 || rank < 0 || rank >= ranks) {
    throw InvalidArgumentError("there is no slice " + std::to_string(rank) + " of " + std::to_string(whole) +
                                   " elements in " + std::to_string(ranks) + " slices",
                               {});
  }
  const std::int64_t shortest = whole / ranks, longer = whole % ranks;
  return {rank * shortest + std::min<std::int64_t>(rank, longer), shortest + (rank < longer ? 1 : 0)};
}

std::vector<std::int64_t> slice_lengths(std::int64_t whole, int ranks) {
  std::vector<std::int64_t> lengths;
  static_cast<void>(slice_of(whole, 0, ranks));  // refuses no ranks
  for (int rank = 0; rank < ranks; ++rank) lengths.push_back(slice_of(whole, rank, ranks).length);
  return lengths;
}

}  // namespace kolo

// Pieces: a call on large memory as calls on small parts of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "comm/call.hpp"

namespace kolo::comm {

/// Elements of every part that a piece has, of which a shorter part has fewer or none.
struct Columns {
  std::uint64_t begin = 0, end = 0;

  /// Those that a part of so many elements has.
  Columns of(std::uint64_t count) const { return {std::min(begin, count), std::min(end, count)}; }
  std::uint64_t size() const { return end - begin; }
};

/// What a rank gives to a call, or gets: a buffer for each part of the data that a rank can have for itself.
struct CallParts {
  std::vector<ConstBuffer> in;
  std::vector<Buffer> out;
  /// Elements of the parts of all ranks, of which the collective's counts are; empty: there is one part.
  std::vector<std::uint64_t> counts, recv_counts;
  std::uint64_t longest = 0;  ///< of the parts of any rank; where ranks do not know that, of this rank's
  bool is_known_to_all = true;
  bool are_listed = false;  ///< in memory of their own
  bool is_one = false;      ///< output may take the place of input

  /// Of a call that check() has passed, with this key.
  static CallParts of(const Call& call, const schedule::CallKey& key, int rank, int size);
  /// Whether all ranks' parts are equally long, and side by side.
  bool are_alike() const {
    return !are_listed && std::ranges::adjacent_find(counts, std::not_equal_to()) == counts.end();
  }
  /// Elements in these columns.
  std::uint64_t input(Columns columns) const;
  std::uint64_t output(Columns columns) const;
};

}  // namespace kolo::comm

// CallKey: everything about a call that decides how its ranks run it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "kolo/dtype.hpp"
#include "kolo/reduction.hpp"
#include "kolo/wire.hpp"
#include "schedule/collective.hpp"

namespace kolo::schedule {

/// Calls of a communicator with equal keys run alike, on whatever memory. A value.
struct CallKey {
  Collective collective = Collective::all_reduce;
  DType dtype = DType::float32;
  ReduceOp op = ReduceOp::sum;  ///< of a collective that reduces; else sum
  Wire wire = Wire::native;
  bool commutative = true;  ///< kolo may change the order of the operands
  /// Input and output are the same memory (Placement). Ranks may differ in it, but for all_to_all.
  bool in_place = false;
  std::int32_t root = 0;  ///< of a message: the peer of a send, -1 - peer of a receive
  /// Elements of the whole data, the same on every rank; 0 for an all_to_all with counts.
  std::uint64_t count = 0;
  std::uint64_t segment_bytes = 1u << 19;
  // Texts that live as long as the process, as a Name's.
  std::string_view algorithm = {};  ///< as the caller names it; empty: kolo's choice
  std::string_view custom = {};     ///< the name of the caller's own reduction
  /// Elements of the part of each rank, if the caller gives counts; for all_to_all of what this rank sends to
  /// each, and then of what it receives from each.
  std::vector<std::uint64_t> parts = {};

  /// A tenth of a short call, were it defaulted: most keys have neither texts nor parts.
  [[gnu::always_inline]] bool operator==(const CallKey& other) const {
    return count == other.count && collective == other.collective && dtype == other.dtype && op == other.op &&
           wire == other.wire && commutative == other.commutative && in_place == other.in_place &&
           root == other.root && segment_bytes == other.segment_bytes &&
           same_text(algorithm, other.algorithm) && same_text(custom, other.custom) &&
           parts.size() == other.parts.size() && (parts.empty() || parts == other.parts);
  }

  [[gnu::always_inline]] static bool same_text(std::string_view one, std::string_view two) {
    return one.size() == two.size() && (one.empty() || one == two);
  }

  /// Whether the reduction is the caller's own, which never runs in shared memory.
  bool is_custom() const { return op == ReduceOp::custom; }
  /// Whether messages are rounded: never in shared memory, and every chunk must be completed only once.
  bool is_rounded() const { return wire != Wire::native; }
  bool is_uneven() const { return !parts.empty(); }
  /// Whether the parts are equal all the same. For all_to_all other ranks may have unequal ones.
  bool has_equal_parts() const {
    return std::adjacent_find(parts.begin(), parts.end(), std::not_equal_to()) == parts.end();
  }
  /// Its upper bits are the better mixed ones.
  std::size_t hash() const {
    std::uint64_t rest = segment_bytes ^ static_cast<std::uint64_t>(root) << 24;
    for (const std::uint64_t part : parts) rest = rest * 31 + part;
    rest = rest << 16 ^ static_cast<std::uint64_t>(collective) << 12 ^
           static_cast<std::uint64_t>(dtype) << 4 ^ static_cast<std::uint64_t>(in_place);
    return (count ^ rest * 0xbf58476d1ce4e5b9ull) * 0x9e3779b97f4a7c15ull;
  }
};

}  // namespace kolo::schedule

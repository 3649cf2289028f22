// Case: one measurement, a collective at a size with an element type and a reduction; as nccl-tests counts
// them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kolo/dtype.hpp"
#include "kolo/reduction.hpp"
#include "kolo/wire.hpp"

namespace kolo::bench {

/// What is measured. `rewrite` is no collective: every rank loads and stores its own memory in place, all at
/// once.
enum class Kind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  scatter,
  gather,
  all_to_all,
  barrier,
  send_recv,
  rewrite,
};

std::string_view name_of(Kind kind) noexcept;
/// The inverse for everything that a user can ask for (not `rewrite`). False when there is no such
/// collective.
bool parse_kind(std::string_view name, Kind& out) noexcept;
/// The names that parse_kind() takes.
std::span<const std::string_view> kind_names() noexcept;

constexpr bool is_reducing(Kind kind) noexcept {
  return kind == Kind::all_reduce || kind == Kind::reduce_scatter || kind == Kind::reduce;
}
/// The data is one part per rank, so that `bytes` is a multiple of the ranks.
constexpr bool is_partitioned(Kind kind) noexcept {
  return kind == Kind::reduce_scatter || kind == Kind::all_gather || kind == Kind::scatter ||
         kind == Kind::gather || kind == Kind::all_to_all;
}

/// One measurement. Roots are rank 0. A value.
struct Case {
  Kind kind = Kind::all_reduce;
  int ranks = 1;
  DType dtype = DType::float32;
  ReduceOp op = ReduceOp::sum;
  bool in_place = true;
  std::uint64_t count = 0;  ///< elements of one part: the whole data, or one rank's share of it
  Wire wire = Wire::native;
  int tensors = 1;  ///< calls an iteration, each on data of its own; more than one: all at once

  /// The size that nccl-tests would print: the larger of what a rank (the root) gives and gets. Of one
  /// tensor.
  std::uint64_t bytes() const noexcept;
  /// Elements that `rank` gives and that it gets; 0 where it takes no part.
  std::uint64_t in_count(int rank) const noexcept;
  std::uint64_t out_count(int rank) const noexcept;
  /// Where, in elements, a rank's `in` lies within `out` (or `out` within `in`) when in place.
  std::uint64_t offset_in_place(int rank) const noexcept;
  /// busbw / algbw: the share of `bytes` that has to cross the slowest link, as nccl-tests defines it.
  double bus_factor() const noexcept;
};

/// The case nearest to `bytes`: rounded down to whole elements (and parts), but at least one unless 0.
Case make_case(Kind kind, std::uint64_t bytes, int ranks, DType dtype, ReduceOp op, bool in_place) noexcept;

}  // namespace kolo::bench

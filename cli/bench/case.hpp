// Case: one measurement: a collective, a size (as nccl-tests counts it), an element type and a reduction.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "kolo/dtype.hpp"
#include "kolo/reduction.hpp"
#include "kolo/wire.hpp"
#include "schedule/collective.hpp"

namespace kolo::bench {

/// The measured operation.
using Kind = schedule::Collective;

/// The data has one part per rank, so `bytes` is a multiple of the number of ranks.
constexpr bool is_partitioned(Kind kind) noexcept {
  const schedule::CollectiveTraits& traits = schedule::traits_of(kind);
  return traits.input == schedule::Parts::per_rank || traits.output == schedule::Parts::per_rank;
}

/// One measurement. Roots are rank 0. A value.
struct Case {
  Kind kind = Kind::all_reduce;
  int ranks = 1;
  DType dtype = DType::float32;
  ReduceOp op = ReduceOp::sum;
  bool in_place = true;
  std::uint64_t count = 0;  ///< elements of one part: the whole data, or one rank's part of it
  Wire wire = Wire::native;
  int tensors = 1;        ///< calls of a step, each on its own data; several calls run concurrently
  double compute_ms = 0;  ///< processor time that a rank computes for before each step; timed with it
  int steps = 1;          ///< steps of an iteration, one after another, each on its own data
  /// No call: all ranks load and store their own memory in place at the same time. A GPU's is copied down and
  /// up.
  bool rewrites = false;

  /// Size of a tensor as in nccl-tests: the larger of the input and the output of a rank (of the root).
  std::uint64_t bytes() const noexcept;
  /// Elements of the input and of the output of `rank`; 0 if it has none.
  std::uint64_t in_count(int rank) const noexcept;
  std::uint64_t out_count(int rank) const noexcept;
  /// Offset in elements of a rank's `in` within `out` (or of `out` within `in`) in place.
  std::uint64_t offset_in_place(int rank) const noexcept;
  /// busbw / algbw as nccl-tests defines it: the share of `bytes` that must cross the slowest link.
  double bus_factor() const noexcept;
  /// The reduction; nullopt: data is only moved, or rewritten.
  std::optional<ReduceOp> reduction() const noexcept;
  /// "all_reduce", "rewrite".
  std::string_view name() const noexcept { return rewrites ? "rewrite" : schedule::name_of(kind); }
};

/// The case nearest to `bytes`: rounded down to whole elements (and parts), but at least one unless 0.
Case make_case(Kind kind, std::uint64_t bytes, int ranks, DType dtype, ReduceOp op, bool in_place) noexcept;

}  // namespace kolo::bench

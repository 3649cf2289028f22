#include "bench/case.hpp"

#include <algorithm>

namespace kolo::bench {
namespace {

using schedule::Parts;

std::uint64_t elements(const Case& what, Parts parts, bool is_there, int rank) {
  // In send_recv ranks work in pairs; an odd last rank is idle.
  const bool is_idle = what.kind == Kind::send_recv && (rank ^ 1) >= what.ranks;
  if (!is_there || is_idle) return 0;
  return parts == Parts::per_rank ? what.count * static_cast<std::uint64_t>(what.ranks) : what.count;
}

std::uint64_t unit_of(Kind kind, DType dtype, int ranks) {
  return size_of(dtype) * (is_partitioned(kind) ? static_cast<std::uint64_t>(ranks) : 1);
}

}  // namespace

std::uint64_t Case::bytes() const noexcept {
  return count * unit_of(kind, dtype, ranks);
}

std::uint64_t Case::in_count(int rank) const noexcept {
  const schedule::CollectiveTraits& traits = schedule::traits_of(kind);
  return elements(*this, traits.input, traits.has_input(rank == 0), rank);
}

std::uint64_t Case::out_count(int rank) const noexcept {
  const schedule::CollectiveTraits& traits = schedule::traits_of(kind);
  return elements(*this, traits.output, traits.has_output(rank == 0), rank);
}

std::uint64_t Case::offset_in_place(int rank) const noexcept {
  const schedule::CollectiveTraits& traits = schedule::traits_of(kind);
  const bool is_within = traits.input_within_output() || traits.output_within_input();
  return is_within ? count * static_cast<std::uint64_t>(rank) : 0;
}

double Case::bus_factor() const noexcept {
  const double share = (ranks - 1.0) / ranks;
  if (is_partitioned(kind)) return share;
  return kind == Kind::all_reduce ? 2 * share : 1;
}

std::optional<ReduceOp> Case::reduction() const noexcept {
  return !rewrites && schedule::is_reducing(kind) ? std::optional(op) : std::nullopt;
}

Case make_case(Kind kind, std::uint64_t bytes, int ranks, DType dtype, ReduceOp op, bool in_place) noexcept {
  const schedule::CollectiveTraits& traits = schedule::traits_of(kind);
  Case result{kind, ranks, dtype, op, in_place, 0};
  if (traits.placement != schedule::Placement::either)
    result.in_place = traits.placement == schedule::Placement::in_place;
  if (traits.input == Parts::none || bytes == 0) return result;
  result.count = std::max<std::uint64_t>(1, bytes / unit_of(kind, dtype, ranks));
  return result;
}

}  // namespace kolo::bench

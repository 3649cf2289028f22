#include "bench/case.hpp"

#include <algorithm>
#include <array>

namespace kolo::bench {
namespace {

constexpr std::array<std::string_view, 10> kNames = {
    "all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce",
    "scatter",    "gather",         "all_to_all", "barrier",   "send_recv"};

}  // namespace

std::string_view name_of(Kind kind) noexcept {
  return kind == Kind::rewrite ? "rewrite" : kNames[static_cast<std::size_t>(kind)];
}

bool parse_kind(std::string_view name, Kind& out) noexcept {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return false;
  out = static_cast<Kind>(found - kNames.begin());
  return true;
}

std::span<const std::string_view> kind_names() noexcept {
  return kNames;
}

std::uint64_t Case::bytes() const noexcept {
  return count * size_of(dtype) * (is_partitioned(kind) ? static_cast<std::uint64_t>(ranks) : 1);
}

std::uint64_t Case::in_count(int rank) const noexcept {
  const auto all = count * static_cast<std::uint64_t>(ranks);
  switch (kind) {
    case Kind::reduce_scatter:
    case Kind::all_to_all:
      return all;
    case Kind::scatter:
      return rank == 0 ? all : 0;
    case Kind::broadcast:
      return rank == 0 ? count : 0;
    case Kind::barrier:
      return 0;
    case Kind::send_recv:  // ranks work in pairs; an odd last rank is idle
      return (rank ^ 1) < ranks ? count : 0;
    default:
      return count;
  }
}

std::uint64_t Case::out_count(int rank) const noexcept {
  const auto all = count * static_cast<std::uint64_t>(ranks);
  switch (kind) {
    case Kind::all_gather:
    case Kind::all_to_all:
      return all;
    case Kind::gather:
      return rank == 0 ? all : 0;
    case Kind::reduce:
      return rank == 0 ? count : 0;
    case Kind::barrier:
      return 0;
    case Kind::send_recv:
      return (rank ^ 1) < ranks ? count : 0;
    default:
      return count;
  }
}

std::uint64_t Case::offset_in_place(int rank) const noexcept {
  switch (kind) {
    case Kind::reduce_scatter:
    case Kind::all_gather:
      return count * static_cast<std::uint64_t>(rank);
    default:  // scatter and gather: the root is rank 0, and its part is the first
      return 0;
  }
}

double Case::bus_factor() const noexcept {
  const double n = ranks;
  switch (kind) {
    case Kind::all_reduce:
      return 2 * (n - 1) / n;
    case Kind::reduce_scatter:
    case Kind::all_gather:
    case Kind::scatter:
    case Kind::gather:
    case Kind::all_to_all:
      return (n - 1) / n;
    default:
      return 1;
  }
}

Case make_case(Kind kind, std::uint64_t bytes, int ranks, DType dtype, ReduceOp op, bool in_place) noexcept {
  Case result{kind, ranks, dtype, op, in_place, 0};
  // A message between two ranks needs two buffers; a broadcast and a rewrite have one buffer by definition.
  if (kind == Kind::send_recv) result.in_place = false;
  if (kind == Kind::broadcast || kind == Kind::rewrite) result.in_place = true;
  if (kind == Kind::barrier) return result;
  const std::uint64_t unit = size_of(dtype) * (is_partitioned(kind) ? static_cast<std::uint64_t>(ranks) : 1);
  result.count = bytes == 0 ? 0 : std::max<std::uint64_t>(1, bytes / unit);
  return result;
}

}  // namespace kolo::bench

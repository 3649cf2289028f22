// Pattern: the data of a benchmark. Cheap to write, different in every iteration and on every rank, and with
// results that every element type holds exactly, so that any difference from the expected bits is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kolo/dtype.hpp"
#include "kolo/reduction.hpp"

namespace kolo::bench {

/// Element `index` of rank `rank` in iteration `iteration` is a small integer: a hash of the three, with the
/// index taken modulo a prime, so that long data is written and compared as copies of one short table.
///
/// Sums stay within the integers that the type holds exactly in whatever order they are added (floating
/// point) or wrap around (integers); products are powers of two; averages come out whole. Not thread-safe.
class Pattern {
 public:
  static constexpr std::uint64_t kPeriod = 4093;

  /// `op` empty: the data is only moved, and takes more values. Requires limitation() to be empty.
  Pattern(DType dtype, std::optional<ReduceOp> op, int ranks);

  /// Why the result could not be exact with so many ranks; empty when it is.
  static std::string limitation(DType dtype, std::optional<ReduceOp> op, int ranks);

  std::int64_t value(int rank, std::uint64_t iteration, std::uint64_t index) const;
  /// All ranks' values reduced.
  std::int64_t reduced(std::uint64_t iteration, std::uint64_t index) const;

  /// Writes elements [first, first + count) of `rank`.
  void fill(void* out, std::uint64_t count, int rank, std::uint64_t iteration, std::uint64_t first = 0);
  /// How many of `count` elements are not bit for bit those of `rank` from `first` on.
  std::uint64_t count_wrong(const void* got, std::uint64_t count, int rank, std::uint64_t iteration,
                            std::uint64_t first = 0);
  /// The same for the reduction of all ranks' elements.
  std::uint64_t count_wrong_reduced(const void* got, std::uint64_t count, std::uint64_t iteration,
                                    std::uint64_t first = 0);

 private:
  static constexpr int kReducedRank = -1;
  void make_table(std::uint64_t count, int rank, std::uint64_t iteration, std::uint64_t first);
  std::uint64_t compare(const void* got, std::uint64_t count) const;

  DType dtype_;
  std::optional<ReduceOp> op_;
  int ranks_;
  std::int64_t largest_;
  std::vector<std::byte> table_;
  std::uint64_t table_count_ = 0;
};

}  // namespace kolo::bench

// Pattern: integer data for a benchmark, different in every iteration and on every rank. Every element type
// holds its results exactly, so any difference from the expected bits is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kolo/dtype.hpp"
#include "kolo/reduction.hpp"

namespace kolo::bench {

/// Each element is a small integer: a hash of rank, iteration and the index modulo a prime. So large data is
/// written and compared as copies of one short table. Sums stay within the integers that the type holds
/// exactly in any order of addition (floating point), or wrap around (integers). Products are powers of two;
/// averages are integers. Not thread-safe.
class Pattern {
 public:
  static constexpr std::uint64_t kPeriod = 4093;

  /// Without `op` the data is only moved, and has more values. Requires that limitation() is empty.
  Pattern(DType dtype, std::optional<ReduceOp> op, int ranks);

  /// Why there is no such result, or none that is exact with this number of ranks; empty if there is.
  static std::string limitation(DType dtype, std::optional<ReduceOp> op, int ranks);

  std::int64_t value(int rank, std::uint64_t iteration, std::uint64_t index) const;
  /// The reduction of the values of the first `ranks` ranks; 0: of all.
  std::int64_t reduced(std::uint64_t iteration, std::uint64_t index, int ranks = 0) const;

  /// Writes elements [first, first + count) of `rank`.
  void fill(void* out, std::uint64_t count, int rank, std::uint64_t iteration, std::uint64_t first = 0);
  /// Number of the `count` elements that differ in any bit from those of `rank` from `first` on.
  std::uint64_t count_wrong(const void* got, std::uint64_t count, int rank, std::uint64_t iteration,
                            std::uint64_t first = 0);
  /// Number of elements that differ in any bit from those of reduced().
  std::uint64_t count_wrong_reduced(const void* got, std::uint64_t count, std::uint64_t iteration,
                                    std::uint64_t first = 0, int ranks = 0);

 private:
  static constexpr int kReducedRank = -1;
  /// `value_of(index)`: the element.
  template <typename Value>
  void make_table(std::uint64_t count, std::uint64_t first, Value value_of);
  std::uint64_t compare(const void* got, std::uint64_t count) const;

  DType dtype_;
  std::optional<ReduceOp> op_;
  int ranks_;
  std::int64_t largest_;
  std::vector<std::byte> table_;
  std::uint64_t table_count_ = 0;
};

}  // namespace kolo::bench

// The largest of many numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kolo::train {

/// Finds the `count` numbers of largest magnitude in two passes: a histogram of the bits that tell an eighth
/// of a power of two, then all numbers from the bin on in which the last one lies; of those few the exact
/// ones. Numbers that are not finite are larger than all others; of equal ones those with the lowest index
/// are taken; zeros are not. Keeps memory between calls.
class Selection {
 public:
  /// Appends their indices, in ascending order, each plus `offset`.
  void largest(std::span<const float> numbers, std::size_t count, std::uint64_t offset,
               std::vector<std::uint64_t>& indices);

 private:
  static constexpr int kBinShift = 20;  // behind them the other 20 bits of the mantissa
  /// Four counts a bin, for neighbours among the numbers: most of them are in few bins, and a count that was
  /// just written is not ready to be read.
  std::array<std::array<std::uint32_t, std::size_t{1} << (31 - kBinShift)>, 4> histogram_;
  std::vector<std::uint32_t> candidates_;

  /// The bin that holds the `count`-th largest.
  std::uint32_t last_bin(std::span<const float> numbers, std::size_t count);
};

}  // namespace kolo::train

// The largest of many numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kolo::train {

/// Finds the `count` numbers of largest magnitude, in two passes and a bit. Numbers that are not finite are
/// larger than all others; of equal ones those with the lowest index are taken. Keeps memory between calls.
class Selection {
 public:
  /// Appends their indices, in ascending order, each plus `offset`.
  void largest(std::span<const float> numbers, std::size_t count, std::uint64_t offset,
               std::vector<std::uint64_t>& indices);

 private:
  std::vector<std::uint32_t> histogram_;
  std::vector<std::uint32_t> candidates_;
};

}  // namespace kolo::train

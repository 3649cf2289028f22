// Products with matrices of few columns. Sums are in a fixed order, and sources are compiled without fused
// operations, so the results are the same on all processors.
#pragma once

#include <cstddef>
#include <span>

namespace kolo::train {

/// A few vectors of equal length, one after the other.
struct Vectors {
  std::span<float> numbers;
  std::size_t length = 0;

  std::size_t count() const { return length == 0 ? 0 : numbers.size() / length; }
  std::span<float> operator[](std::size_t index) const { return numbers.subspan(index * length, length); }
};

/// left_c = M right_c, for M of left.length rows and right.length columns, row by row.
void multiply(std::span<const float> matrix, const Vectors& right, const Vectors& left);
/// right_c = M^T left_c.
void multiply_transposed(std::span<const float> matrix, const Vectors& left, const Vectors& right);
/// M = sum over c of left_c right_c^T.
void expand(const Vectors& left, const Vectors& right, std::span<float> matrix);
/// Modified Gram-Schmidt. Zeros stay zeros.
void orthonormalize(const Vectors& vectors);

}  // namespace kolo::train

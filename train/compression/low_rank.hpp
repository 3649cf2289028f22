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

// A matrix M has left.length rows and right.length columns, row by row. Each function passes over it once.

/// M = scale gradient + kept (an empty `kept` counts as zero), then left_c = M right_c. `matrix` may be
/// `gradient` or `kept`.
void form_and_multiply(std::span<const float> gradient, float scale, std::span<const float> kept,
                       const Vectors& right, std::span<float> matrix, const Vectors& left);
/// right_c = M^T left_c.
void multiply_transposed(std::span<const float> matrix, const Vectors& left, const Vectors& right);
/// M = scale times the sum over c of left_c right_c^T.
void expand(const Vectors& left, const Vectors& right, float scale, std::span<float> matrix);
/// M -= the sum over c of left_c right_c^T.
void subtract_product(const Vectors& left, const Vectors& right, std::span<float> matrix);
/// Modified Gram-Schmidt, twice for each vector (L. Giraud et al., "Rounding error analysis of the classical
/// Gram-Schmidt orthogonalization process", 2005: twice is enough), with sums in float64, so that no length
/// overflows or underflows. A vector that depends on those before it, to a millionth of its length, becomes
/// zero.
void orthonormalize(const Vectors& vectors);

}  // namespace kolo::train

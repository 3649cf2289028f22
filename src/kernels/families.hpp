// The kernels by family of element types. Each family is compiled separately, once per instruction set.
#pragma once

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/kernels.hpp"

namespace kolo::kernels {

enum class Family { floating, half, integer };
constexpr Family family_of(DType dtype) {
  if (is_complex(dtype)) return Family::floating;
  if (!is_floating(dtype)) return Family::integer;
  return element_type(dtype).computed == dtype ? Family::floating : Family::half;
}

/// Null for types of other families and where there is no such kernel.
ReduceFn floating_reduction(DType dtype, ReduceOp op);
ReduceFn half_reduction(DType dtype, ReduceOp op);
ReduceFn integer_reduction(DType dtype, ReduceOp op);

AverageFn floating_average(DType dtype);
AverageFn half_average(DType dtype);

ScaleFn half_scale(DType dtype);
/// Whether contributions to an average are scaled: where exponents are shorter than those of float32.
constexpr bool is_scaled(DType dtype) {
  return is_floating(dtype) && 8 * static_cast<int>(size_of(dtype)) - element_type(dtype).digits < 8;
}
/// The scale. Fewer than `divisor` contributions of the largest number, scaled by it, sum up to at most that.
/// Partial sums that are rounded on the way also stay below; a test proves that.
inline float average_scale(std::size_t element_bytes, std::uint64_t ranks) {
  if (ranks <= 2) return 1.0f;
  const int growth = element_bytes > 1 || ranks <= 8 ? 0 : ranks <= 900 ? 1 : 2;  // of float8, by rounding
  return std::ldexp(1.0f, -growth - static_cast<int>(std::bit_width(ranks - 2)));
}
/// An average of numbers of 8 bits is no larger. Rounded sums may be, by up to a factor of 2.
template <typename T>
inline constexpr float kLargestAverage = std::numeric_limits<float>::infinity();
template <>
inline constexpr float kLargestAverage<Float8E4M3FN> = 448;
template <>
inline constexpr float kLargestAverage<Float8E5M2> = 57344;

/// The fold of a single input.
void copy_to_all(void* const* outs, std::size_t out_count, const void* in, std::size_t bytes);

}  // namespace kolo::kernels

// The kernels by family of element types. Each family is compiled separately, once per instruction set.
#pragma once

#include <bit>
#include <cmath>

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
/// The scale. Fewer than `divisor` contributions of 65504, scaled by it, sum up to at most 65504. Partial
/// sums that are rounded on the way also stay below; a test proves that.
inline float float16_scale_of(std::uint64_t divisor) {
  return divisor <= 2 ? 1.0f : std::ldexp(1.0f, -static_cast<int>(std::bit_width(divisor - 2)));
}

/// The fold of a single input.
void copy_to_all(void* const* outs, std::size_t out_count, const void* in, std::size_t bytes);

}  // namespace kolo::kernels

// The kernels by family of element types; each family is compiled on its own, once per instruction set.
#pragma once

#include <bit>
#include <cmath>

#include "kernels/kernels.hpp"

namespace kolo::kernels {

/// Each takes the types of its family and any built-in operation; `average` counts as sum.
ReduceFn floating_reduction(DType dtype, ReduceOp op);
ReduceFn half_reduction(DType dtype, ReduceOp op);
ReduceFn integer_reduction(DType dtype, ReduceOp op);

AverageFn floating_average(DType dtype);
AverageFn half_average(DType dtype);
AverageFn integer_average(DType dtype);

ScaleFn float16_scale();
/// The scale. Fewer than `divisor` times 65504, so scaled, is at most 65504; sums that are rounded on the way
/// stay below as well, which a test proves.
inline float float16_scale_of(std::uint64_t divisor) {
  return divisor <= 2 ? 1.0f : std::ldexp(1.0f, -static_cast<int>(std::bit_width(divisor - 2)));
}

/// A fold of one input.
void copy_to_all(void* const* outs, std::size_t out_count, const void* in, std::size_t bytes);

}  // namespace kolo::kernels

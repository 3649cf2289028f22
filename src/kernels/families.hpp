// The kernels by family of element types. Each family is compiled separately, once per instruction set.
#pragma once

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

ScaleFn floating_scale(DType dtype);
ScaleFn half_scale(DType dtype);

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

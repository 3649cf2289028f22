// The kernels by family of element types; each family is compiled on its own, once per instruction set.
#pragma once

#include "kernels/kernels.hpp"

namespace kolo::kernels {

/// Each takes the types of its family and any built-in operation; `average` counts as sum.
ReduceFn floating_reduction(DType dtype, ReduceOp op);
ReduceFn half_reduction(DType dtype, ReduceOp op);
ReduceFn integer_reduction(DType dtype, ReduceOp op);

AverageFn floating_average(DType dtype);
AverageFn half_average(DType dtype);
AverageFn integer_average(DType dtype);

/// A fold of one input.
void copy_to_all(void* const* outs, std::size_t out_count, const void* in, std::size_t bytes);

}  // namespace kolo::kernels

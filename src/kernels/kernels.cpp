#include "kernels/kernels.hpp"

#include "kernels/families.hpp"

namespace kolo::kernels {
namespace {

bool is_half(DType dtype) {
  return dtype == DType::float16 || dtype == DType::bfloat16;
}

}  // namespace

ReduceFn reduce_function(DType dtype, ReduceOp op) {
  if (op == ReduceOp::custom) return nullptr;
  if (is_half(dtype)) return half_reduction(dtype, op);
  return is_floating(dtype) ? floating_reduction(dtype, op) : integer_reduction(dtype, op);
}

ScaleFn scale_function(DType dtype) {
  return dtype == DType::float16 ? float16_scale() : nullptr;
}

AverageFn average_function(DType dtype) {
  if (is_half(dtype)) return half_average(dtype);
  return is_floating(dtype) ? floating_average(dtype) : integer_average(dtype);
}

}  // namespace kolo::kernels

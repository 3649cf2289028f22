#include "kernels/kernels.hpp"

#include "kernels/families.hpp"

namespace kolo::kernels {
ReduceFn reduce_function(DType dtype, ReduceOp op) {
  if (!knows(dtype, op)) return nullptr;
  switch (family_of(dtype)) {
    case Family::floating:
      return floating_reduction(dtype, op);
    case Family::half:
      return half_reduction(dtype, op);
    case Family::integer:
      return integer_reduction(dtype, op);
  }
  return nullptr;
}

ScaleFn scale_function(DType dtype) {
  switch (family_of(dtype)) {
    case Family::floating:
      return floating_scale(dtype);
    case Family::half:
      return half_scale(dtype);
    case Family::integer:
      break;
  }
  return nullptr;
}

AverageFn average_function(DType dtype) {
  switch (family_of(dtype)) {
    case Family::floating:
      return floating_average(dtype);
    case Family::half:
      return half_average(dtype);
    case Family::integer:
      break;
  }
  return nullptr;
}

}  // namespace kolo::kernels

// float32 and float64.
#include "kernels/families.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/floating.cpp"
#include "hwy/foreach_target.h"
// Per-target headers come after foreach_target.h.
#include "kernels/zip_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace kolo::kernels::HWY_NAMESPACE {

ReduceFn find_floating(DType dtype, ReduceOp op) {
  return dtype == DType::float32 ? pick_reduction<PlainCodec<float>>(op)
                                 : pick_reduction<PlainCodec<double>>(op);
}

AverageFn find_floating_average(DType dtype) {
  return dtype == DType::float32 ? average_with<PlainCodec<float>> : average_with<PlainCodec<double>>;
}

}  // namespace kolo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kolo::kernels {

HWY_EXPORT(find_floating);
HWY_EXPORT(find_floating_average);

ReduceFn floating_reduction(DType dtype, ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(find_floating)(dtype, op);
}
AverageFn floating_average(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(find_floating_average)(dtype);
}

}  // namespace kolo::kernels
#endif  // HWY_ONCE

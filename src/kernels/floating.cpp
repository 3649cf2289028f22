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
  return find_in<Family::floating, ReduceFn>(
      dtype, [&]<typename T>(std::type_identity<T>) { return pick_reduction<CodecOf<T>>(op); });
}

AverageFn find_floating_average(DType dtype) {
  return find_in<Family::floating, AverageFn>(
      dtype, []<typename T>(std::type_identity<T>) { return average_with<CodecOf<T>>; });
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

// float16, bfloat16 and float8: computed in float32.
#include "kernels/families.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/half.cpp"
#include "hwy/foreach_target.h"
// Per-target headers come after foreach_target.h.
#include "kernels/zip_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace kolo::kernels::HWY_NAMESPACE {

ReduceFn find_half(DType dtype, ReduceOp op) {
  return find_in<Family::half, ReduceFn>(
      dtype, [&]<typename T>(std::type_identity<T>) { return pick_reduction<CodecOf<T>>(op); });
}

AverageFn find_half_average(DType dtype) {
  return find_in<Family::half, AverageFn>(
      dtype, []<typename T>(std::type_identity<T>) { return average_with<CodecOf<T>>; });
}

ScaleFn find_half_scale(DType dtype) {
  return find_in<Family::half, ScaleFn>(
      dtype, []<typename T>(std::type_identity<T>) { return scale_with<CodecOf<T>>; });
}

}  // namespace kolo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kolo::kernels {

HWY_EXPORT(find_half);
HWY_EXPORT(find_half_average);
HWY_EXPORT(find_half_scale);

ReduceFn half_reduction(DType dtype, ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(find_half)(dtype, op);
}
AverageFn half_average(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(find_half_average)(dtype);
}
ScaleFn half_scale(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(find_half_scale)(dtype);
}

}  // namespace kolo::kernels
#endif  // HWY_ONCE

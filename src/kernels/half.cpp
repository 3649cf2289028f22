// float16 and bfloat16.
#include "kernels/families.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/half.cpp"
#include "hwy/foreach_target.h"
// Per-target headers come after foreach_target.h.
#include "kernels/zip_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace kolo::kernels::HWY_NAMESPACE {

ReduceFn find_half(DType dtype, ReduceOp op) {
  return dtype == DType::float16 ? pick_reduction<Float16Codec>(op) : pick_reduction<BFloat16Codec>(op);
}

AverageFn find_half_average(DType dtype) {
  return dtype == DType::float16 ? average_with<Float16Codec> : average_with<BFloat16Codec>;
}

void scale_float16(void* out, const void* in, std::size_t count, std::uint64_t divisor) {
  zip<Float16Codec>(out, in, in, count, Scale{float16_scale_of(divisor)});
}
ScaleFn find_float16_scale() {
  return scale_float16;
}

}  // namespace kolo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kolo::kernels {

HWY_EXPORT(find_half);
HWY_EXPORT(find_half_average);
HWY_EXPORT(find_float16_scale);

ReduceFn half_reduction(DType dtype, ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(find_half)(dtype, op);
}
AverageFn half_average(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(find_half_average)(dtype);
}
ScaleFn float16_scale() {
  return HWY_DYNAMIC_DISPATCH(find_float16_scale)();
}

}  // namespace kolo::kernels
#endif  // HWY_ONCE

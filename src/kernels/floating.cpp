// float32 and float64, and complex numbers of these.
#include "kernels/families.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/floating.cpp"
#include "hwy/foreach_target.h"
// Per-target headers come after foreach_target.h.
#include "kernels/zip_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace kolo::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR  // has no vectors of two
template <typename T>
void multiply_complex(void* out, const void* left, const void* right, std::size_t count) {
  reference::reduce(dtype_of<std::complex<T>>, ReduceOp::product, out, left, right, count);
}
#else
/// (ac - bd, ad + bc), of vectors of parts.
struct ComplexProduct {
  template <class V>
  HWY_INLINE V operator()(V left, V right) const {
    const auto by_real = hn::Mul(hn::DupEven(left), right);
    const auto by_imaginary = hn::Mul(hn::DupOdd(left), hn::Reverse2(hn::DFromV<V>(), right));
    return hn::OddEven(hn::Add(by_real, by_imaginary), hn::Sub(by_real, by_imaginary));
  }
};

template <typename T>
void multiply_complex(void* out, const void* left, const void* right, std::size_t count) {
  zip<PlainCodec<T>>(out, left, right, 2 * count, ComplexProduct());
}
#endif

template <typename T>
void average_complex(void* out, const void* left, const void* right, std::size_t count,
                     std::uint64_t divisor) {
  average_with<PlainCodec<T>>(out, left, right, 2 * count, divisor);
}

ReduceFn find_floating(DType dtype, ReduceOp op) {
  return find_in<Family::floating, ReduceFn>(dtype, [&]<typename T>(std::type_identity<T>) -> ReduceFn {
    if constexpr (is_complex(dtype_of<T>)) {
      using Part = typename T::value_type;
      if (op == ReduceOp::product) return multiply_complex<Part>;
      const bool adds = op == ReduceOp::sum || op == ReduceOp::average;
      return adds ? reduce_parts<2, reduce_with<PlainCodec<Part>, Sum>> : nullptr;
    } else {
      return pick_reduction<CodecOf<T>>(op);
    }
  });
}

AverageFn find_floating_average(DType dtype) {
  return find_in<Family::floating, AverageFn>(dtype, []<typename T>(std::type_identity<T>) -> AverageFn {
    if constexpr (is_complex(dtype_of<T>)) {
      return average_complex<typename T::value_type>;
    } else {
      return average_with<CodecOf<T>>;
    }
  });
}

ScaleFn find_floating_scale(DType dtype) {
  return find_in<Family::floating, ScaleFn>(dtype, []<typename T>(std::type_identity<T>) -> ScaleFn {
    if constexpr (is_complex(dtype_of<T>)) {
      return scale_with<PlainCodec<typename T::value_type>, 2>;
    } else {
      return scale_with<CodecOf<T>>;
    }
  });
}

}  // namespace kolo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kolo::kernels {

HWY_EXPORT(find_floating);
HWY_EXPORT(find_floating_average);
HWY_EXPORT(find_floating_scale);

ReduceFn floating_reduction(DType dtype, ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(find_floating)(dtype, op);
}
ScaleFn floating_scale(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(find_floating_scale)(dtype);
}
AverageFn floating_average(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(find_floating_average)(dtype);
}

}  // namespace kolo::kernels
#endif  // HWY_ONCE

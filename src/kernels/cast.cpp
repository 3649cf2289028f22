// Conversions between the floating types.
#include "kernels/kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cast.cpp"
#include "hwy/foreach_target.h"
// Per-target headers come after foreach_target.h.
#include <cstring>

#include "kernels/codec_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace kolo::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// float64 to float32, to nearest even.
template <class D, class Wide>
HWY_INLINE hn::Vec<D> nearest(D d, hn::Vec<Wide> v, Wide wide) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  // On these targets Highway's own conversion turns an overflow into the largest finite number.
  HWY_ALIGN double from[hn::MaxLanes(wide)];
  HWY_ALIGN float to[hn::MaxLanes(d)];
  hn::Store(v, wide, from);
  for (std::size_t i = 0; i < hn::Lanes(wide); ++i) to[i] = static_cast<float>(from[i]);
  return hn::Load(d, to);
#else
  (void)wide;
  return hn::DemoteTo(d, v);
#endif
}

/// float64 by way of float32; only for casts.
struct DoubleCodec {
  using Stored = double;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const double* from) {
    const hn::Rebind<double, D> wide;
    return nearest(d, hn::LoadU(wide, from), wide);
  }
  template <class D>
  static HWY_INLINE void store(hn::Vec<D> v, D, double* to) {
    const hn::Rebind<double, D> wide;
    hn::StoreU(hn::PromoteTo(wide, v), wide, to);
  }
};

/// float64 on its way to 16 bits. Rounding to nearest twice can be wrong by one unit. Rounding to odd first
/// (towards zero, with the last bit set if anything was lost) preserves on which side of every tie the number
/// lies (S. Boldo, G. Melquiond: "Emulation of FMA and correctly rounded sums: proved algorithms using
/// rounding to odd", 2008).
struct OddDoubleCodec {
  using Stored = double;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const double* from) {
    const hn::Rebind<double, D> wide;
    const hn::RebindToUnsigned<D> du;
    const auto exact = hn::LoadU(wide, from);
    const auto near = nearest(d, exact, wide);
    // +1 where the magnitude was rounded up, -1 where down, 0 where exact or NaN.
    const auto got = hn::Abs(hn::PromoteTo(wide, near));
    const auto wanted = hn::Abs(exact);
    const auto down = hn::IfThenElseZero(hn::Lt(got, wanted), hn::Set(wide, -1.0));
    const auto direction = nearest(d, hn::IfThenElse(hn::Gt(got, wanted), hn::Set(wide, 1.0), down), wide);

    const auto one = hn::Set(du, 1u);
    const auto up = hn::RebindMask(du, hn::Gt(direction, hn::Zero(d)));
    const auto lost = hn::RebindMask(du, hn::Ne(direction, hn::Zero(d)));
    const auto towards_zero = hn::Sub(hn::BitCast(du, near), hn::IfThenElseZero(up, one));
    return hn::BitCast(d, hn::Or(towards_zero, hn::IfThenElseZero(lost, one)));
  }
};

/// out[i] = in[i], through float32 vectors of D's length.
template <class From, class To, class D>
HWY_INLINE void cast_loop(D d, void* out_bytes, const void* in_bytes, std::size_t count) {
  using In = typename From::Stored;
  using Out = typename To::Stored;
  auto* out = static_cast<Out*>(out_bytes);
  const auto* in = static_cast<const In*>(in_bytes);
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) To::store(From::load(d, in + i), d, out + i);
  if (const std::size_t rest = count - i; rest != 0) {
    constexpr std::size_t kMaxLanes = hn::MaxLanes(d);
    HWY_ALIGN In last[kMaxLanes] = {};
    HWY_ALIGN Out converted[kMaxLanes];
    std::memcpy(last, in + i, rest * sizeof(In));
    To::store(From::load(d, last), d, converted);
    std::memcpy(out + i, converted, rest * sizeof(Out));
  }
}

template <class From, class To>
void cast_with(void* out, const void* in, std::size_t count) {
  if constexpr (sizeof(typename From::Stored) == 8 || sizeof(typename To::Stored) == 8) {
    cast_loop<From, To>(hn::Rebind<float, hn::ScalableTag<double>>(), out, in, count);
  } else {
    cast_loop<From, To>(hn::ScalableTag<float>(), out, in, count);
  }
}

template <class From>
CastFn cast_to_half_or_float(DType to) {
  switch (to) {
    case DType::float16:
      return cast_with<From, Float16Codec>;
    case DType::bfloat16:
      return cast_with<From, BFloat16Codec>;
    default:
      return cast_with<From, PlainCodec<float>>;
  }
}

template <class From>
CastFn cast_from(DType to) {
  return to == DType::float64 ? cast_with<From, DoubleCodec> : cast_to_half_or_float<From>(to);
}

/// For two different floating types.
CastFn find_cast(DType to, DType from) {
  switch (from) {
    case DType::float32:
      return cast_from<PlainCodec<float>>(to);
    case DType::float16:
      return cast_from<Float16Codec>(to);
    case DType::bfloat16:
      return cast_from<BFloat16Codec>(to);
    default:
      return to == DType::float32 ? cast_with<DoubleCodec, PlainCodec<float>>
                                  : cast_to_half_or_float<OddDoubleCodec>(to);
  }
}

}  // namespace kolo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kolo::kernels {
namespace {

template <std::size_t kSize>
void copy_elements(void* out, const void* in, std::size_t count) {
  copy(out, in, count * kSize);
}

}  // namespace

HWY_EXPORT(find_cast);

CastFn cast_function(DType to, DType from) {
  const auto is_known = [](DType dtype) { return is_floating(dtype) && size_of(dtype) >= 2; };
  if (!is_known(to) || !is_known(from)) return nullptr;
  if (to != from) return HWY_DYNAMIC_DISPATCH(find_cast)(to, from);
  switch (size_of(to)) {
    case 2:
      return copy_elements<2>;
    case 4:
      return copy_elements<4>;
    default:
      return copy_elements<8>;
  }
}

}  // namespace kolo::kernels
#endif  // HWY_ONCE

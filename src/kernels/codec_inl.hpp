// Codecs: convert elements between memory and the vectors that operations compute with. Per-target header.
#if defined(KOLO_KERNELS_CODEC_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef KOLO_KERNELS_CODEC_INL_HPP
#undef KOLO_KERNELS_CODEC_INL_HPP
#else
#define KOLO_KERNELS_CODEC_INL_HPP
#endif

#include <cstdint>

#include "base/element.hpp"
#include "base/short_float.hpp"
#include "hwy/highway.h"
#include "kernels/families.hpp"

HWY_BEFORE_NAMESPACE();
namespace kolo::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Vectors of 32 bytes even where longer ones exist. Loops that are bound by memory run as fast with them
/// from L1 and L2, and faster from further away: 1.1 times from L3, 1.15 from DRAM (EPYC of the Zen 4 kind).
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
template <typename Lane>
using ShortTag = hn::CappedTag<Lane, 32 / sizeof(Lane)>;
#else
template <typename Lane>
using ShortTag = hn::ScalableTag<Lane>;
#endif

// A codec names the type in memory (Stored) and the type that reductions compute with (vectors `D` of Lanes).
//   kIsScaled       contributions to an average are scaled first;
//   kLargestAverage  of finite numbers, where it could be larger by rounding; else 0;
//   kIsFused        folds have a loop of their own;
//   Raw<D>          the tag of vectors as they are in memory;
//   combine         op(left, right) on such vectors. Results between two steps of a chain have the bits that
//                   memory would hold, so the result does not depend on how the chain is cut;
//   decode, encode  convert one vector of elements to the computing type, and back;
//   load, store     the same from and to memory. Pointers need no alignment.

/// For codecs whose vector of elements has as many lanes as one of Lanes.
template <class Codec, typename Element>
struct Elementwise {
  using Stored = Element;
  static constexpr bool kIsScaled = false;
  static constexpr float kLargestAverage = 0;
  static constexpr bool kIsFused = true;
  template <class D>
  using Raw = hn::Rebind<Stored, D>;

  template <class D, class V, class Op>
  static HWY_INLINE V combine(D d, V left, V right, Op op) {
    return Codec::encode(d, op(Codec::decode(d, left), Codec::decode(d, right)));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const Stored* from) {
    return Codec::decode(d, hn::LoadU(hn::Rebind<Stored, D>(), from));
  }
  template <class D>
  static HWY_INLINE void store(hn::Vec<D> v, D d, Stored* to) {
    hn::StoreU(Codec::encode(d, v), hn::Rebind<Stored, D>(), to);
  }
};

/// Elements that are computed in their own type.
template <typename T>
struct PlainCodec : Elementwise<PlainCodec<T>, T> {
  using Lane = T;
  using D = ShortTag<Lane>;
  template <class Tag>
  static HWY_INLINE hn::Vec<Tag> decode(Tag, hn::Vec<Tag> v) {
    return v;
  }
  template <class Tag>
  static HWY_INLINE hn::Vec<Tag> encode(Tag, hn::Vec<Tag> v) {
    return v;
  }
};

/// Multiplies bytes: no target has an 8-bit product, and the low half of a 16-bit product is the same.
struct ByteCodec : Elementwise<ByteCodec, std::uint8_t> {
  using Lane = std::uint16_t;
  using D = hn::ScalableTag<Lane>;
  template <class Tag>
  static HWY_INLINE hn::Vec<Tag> decode(Tag d, hn::Vec<hn::Rebind<Stored, Tag>> raw) {
    return hn::PromoteTo(d, raw);
  }
  template <class Tag>
  static HWY_INLINE hn::Vec<hn::Rebind<Stored, Tag>> encode(Tag, hn::Vec<Tag> v) {
    return hn::TruncateTo(hn::Rebind<Stored, Tag>(), v);
  }
};

/// bfloat16, computed in float32. Same arithmetic as to_bfloat16() of base; Highway's own conversion
/// truncates.
struct BFloat16Codec : Elementwise<BFloat16Codec, std::uint16_t> {
  using Lane = float;
  using D = hn::ScalableTag<Lane>;
  template <class Tag>
  static HWY_INLINE hn::Vec<Tag> decode(Tag d, hn::Vec<hn::Rebind<Stored, Tag>> raw) {
    const hn::RebindToUnsigned<Tag> bits;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(bits, raw)));
  }
  template <class Tag>
  static HWY_INLINE hn::Vec<hn::Rebind<Stored, Tag>> encode(Tag d, hn::Vec<Tag> v) {
    const hn::RebindToUnsigned<Tag> du;
    const auto quiet = hn::Or(hn::BitCast(du, v), hn::Set(du, 0x400000u));
    const auto chosen = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), quiet, rounded(d, v));
    return hn::TruncateTo(hn::Rebind<Stored, Tag>(), hn::ShiftRight<16>(chosen));
  }

#if HWY_TARGET != HWY_SCALAR  // HWY_SCALAR has no vectors of two
  // A whole vector at a time, even and odd elements separately: each element stays in its 32 bits.
  template <class Tag>
  using Raw = hn::Repartition<Stored, Tag>;
  template <class Tag, class V, class Op>
  static HWY_INLINE V combine(Tag d, V left, V right, Op op) {
    const hn::RebindToUnsigned<Tag> du;
    const Raw<Tag> halves;
    const auto l = hn::BitCast(du, left);
    const auto r = hn::BitCast(du, right);
    const auto upper = hn::Set(du, 0xFFFF0000u);
    const auto even = op(hn::BitCast(d, hn::ShiftLeft<16>(l)), hn::BitCast(d, hn::ShiftLeft<16>(r)));
    const auto odd = op(hn::BitCast(d, hn::And(l, upper)), hn::BitCast(d, hn::And(r, upper)));
    const auto even_bits = hn::ShiftRight<16>(rounded(d, even));
    const auto odd_bits = rounded(d, odd);
    return hn::OddEven(hn::BitCast(halves, odd_bits), hn::BitCast(halves, even_bits));
  }
#endif

 private:
  /// The result is in the upper 16 bits. A NaN must come from arithmetic on bfloat16. Then the low bits of
  /// its mantissa are clear, and no carry changes it.
  template <class Tag>
  static HWY_INLINE hn::Vec<hn::RebindToUnsigned<Tag>> rounded(Tag, hn::Vec<Tag> v) {
    const hn::RebindToUnsigned<Tag> du;
    const auto bits = hn::BitCast(du, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    return hn::Add(hn::Add(bits, hn::Set(du, 0x7FFFu)), odd);
  }
};

/// float32 to fewer bits. This is the arithmetic of encode() of base, where each step is explained, with
/// masks in place of branches.
template <ShortFloat kFormat, class Tag>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<Tag>> encode_short(Tag d, hn::Vec<Tag> v) {
  constexpr int kShift = kFormat.shift();
  const hn::RebindToUnsigned<Tag> du;
  const hn::RebindToSigned<Tag> di;  // magnitudes are below 2^31, and signed comparisons exist everywhere
  const auto bits = hn::BitCast(du, v);
  const auto sign = hn::ShiftLeft<kFormat.bits - 1>(hn::ShiftRight<31>(bits));
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFFFFFFu));
  const auto ordered = hn::BitCast(di, magnitude);

  const auto odd = hn::And(hn::ShiftRight<kShift>(magnitude), hn::Set(du, 1u));
  const auto biased = hn::Add(hn::Sub(magnitude, hn::Set(du, kFormat.rebias() - kFormat.below_half())), odd);
  const auto normal = hn::ShiftRight<kShift>(biased);
  const auto step = hn::Set(du, kFormat.subnormal_step());
  const auto above = hn::Add(hn::BitCast(d, magnitude), hn::BitCast(d, step));
  const auto subnormal = hn::Sub(hn::BitCast(du, above), step);
  const auto payload = hn::And(hn::ShiftRight<kShift>(magnitude), hn::Set(du, (1u << kFormat.mantissa) - 1));
  const auto nan = hn::Or(payload, hn::Set(du, kFormat.nan));

  const auto below = [&](std::uint32_t limit) HWY_ATTR {
    return hn::RebindMask(du, hn::Lt(ordered, hn::Set(di, static_cast<std::int32_t>(limit))));
  };
  const auto finite = hn::IfThenElse(below(kFormat.least_normal()), subnormal, normal);
  const auto large = hn::IfThenElse(below(0x7F800001), hn::Set(du, kFormat.infinity), nan);
  return hn::Or(sign, hn::IfThenElse(below(kFormat.too_large), finite, large));
}

/// float16, computed in float32.
struct Float16Codec : Elementwise<Float16Codec, std::uint16_t> {
  using Lane = float;
  using D = ShortTag<Lane>;
  static constexpr bool kIsScaled = true;

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  // These targets convert in hardware (F16C), rounding to nearest even.
  template <class Tag>
  static HWY_INLINE hn::Vec<Tag> decode(Tag d, hn::Vec<hn::Rebind<Stored, Tag>> raw) {
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, Tag>(), raw));
  }
  template <class Tag>
  static HWY_INLINE hn::Vec<hn::Rebind<Stored, Tag>> encode(Tag, hn::Vec<Tag> v) {
    return hn::BitCast(hn::Rebind<Stored, Tag>(), hn::DemoteTo(hn::Rebind<hwy::float16_t, Tag>(), v));
  }
#else
  static constexpr bool kIsFused = false;  // a conversion takes a dozen instructions
  // Highway's conversions without hardware truncate and lose infinity and NaN. This is the arithmetic of
  // to_float() of base, where each step is explained, with masks in place of branches.
  template <class Tag>
  static HWY_INLINE hn::Vec<Tag> decode(Tag d, hn::Vec<hn::Rebind<Stored, Tag>> raw) {
    const hn::RebindToUnsigned<Tag> du;
    const auto half = hn::PromoteTo(du, raw);
    const auto sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(du, 0x8000u)));
    const auto exponent = hn::And(half, hn::Set(du, 0x7C00u));
    const auto shifted = hn::ShiftLeft<13>(hn::And(half, hn::Set(du, 0x7FFFu)));
    const auto normal = hn::Add(shifted, hn::Set(du, 0x38000000u));
    const auto special = hn::Or(shifted, hn::Set(du, 0x7F800000u));
    const auto above = hn::BitCast(d, hn::Add(shifted, hn::Set(du, 0x38800000u)));
    const auto subnormal = hn::BitCast(du, hn::Sub(above, hn::Set(d, 0x1p-14f)));
    const auto finite = hn::IfThenElse(hn::Eq(exponent, hn::Zero(du)), subnormal, normal);
    const auto magnitude = hn::IfThenElse(hn::Eq(exponent, hn::Set(du, 0x7C00u)), special, finite);
    return hn::BitCast(d, hn::Or(sign, magnitude));
  }
  template <class Tag>
  static HWY_INLINE hn::Vec<hn::Rebind<Stored, Tag>> encode(Tag d, hn::Vec<Tag> v) {
    return hn::TruncateTo(hn::Rebind<Stored, Tag>(), encode_short<kFloat16Format>(d, v));
  }
#endif
};

/// float8, computed in float32. Its numbers are also numbers of float16, but for a power of two.
struct Float8E4M3FNCodec : Elementwise<Float8E4M3FNCodec, std::uint8_t> {
  using Lane = float;
  using D = hn::ScalableTag<Lane>;
  static constexpr bool kIsScaled = true;
  static constexpr float kLargestAverage = kernels::kLargestAverage<Float8E4M3FN>;
  static constexpr bool kIsFused = false;
  template <class Tag>
  static HWY_INLINE hn::Vec<Tag> decode(Tag d, hn::Vec<hn::Rebind<Stored, Tag>> raw) {
    const hn::Rebind<std::uint16_t, Tag> dh;
    const auto bits = hn::PromoteTo(dh, raw);
    const auto sign = hn::ShiftLeft<8>(hn::And(bits, hn::Set(dh, std::uint16_t{0x80})));
    const auto magnitude = hn::ShiftLeft<7>(hn::And(bits, hn::Set(dh, std::uint16_t{0x7F})));
    const auto value = hn::Mul(Float16Codec::decode(d, hn::Or(sign, magnitude)), hn::Set(d, 0x1p8f));
    // The largest pattern would be 480, and is NaN.
    return hn::IfThenElse(hn::Eq(hn::Abs(value), hn::Set(d, 480.0f)), hn::NaN(d), value);
  }
  template <class Tag>
  static HWY_INLINE hn::Vec<hn::Rebind<Stored, Tag>> encode(Tag d, hn::Vec<Tag> v) {
    return hn::TruncateTo(hn::Rebind<Stored, Tag>(), encode_short<kFloat8E4M3FNFormat>(d, v));
  }
};

struct Float8E5M2Codec : Elementwise<Float8E5M2Codec, std::uint8_t> {
  using Lane = float;
  using D = hn::ScalableTag<Lane>;
  static constexpr bool kIsScaled = true;
  static constexpr float kLargestAverage = kernels::kLargestAverage<Float8E5M2>;
  static constexpr bool kIsFused = false;
  template <class Tag>
  static HWY_INLINE hn::Vec<Tag> decode(Tag d, hn::Vec<hn::Rebind<Stored, Tag>> raw) {
    return Float16Codec::decode(d, hn::ShiftLeft<8>(hn::PromoteTo(hn::Rebind<std::uint16_t, Tag>(), raw)));
  }
  template <class Tag>
  static HWY_INLINE hn::Vec<hn::Rebind<Stored, Tag>> encode(Tag d, hn::Vec<Tag> v) {
    return hn::TruncateTo(hn::Rebind<Stored, Tag>(), encode_short<kFloat8E5M2Format>(d, v));
  }
};

/// The codec of an element type.
template <typename T>
struct CodecFor {
  using Codec = PlainCodec<T>;
};
template <>
struct CodecFor<Float16> {
  using Codec = Float16Codec;
};
template <>
struct CodecFor<BFloat16> {
  using Codec = BFloat16Codec;
};
template <>
struct CodecFor<Float8E4M3FN> {
  using Codec = Float8E4M3FNCodec;
};
template <>
struct CodecFor<Float8E5M2> {
  using Codec = Float8E5M2Codec;
};
template <typename T>
using CodecOf = typename CodecFor<T>::Codec;

}  // namespace kolo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard

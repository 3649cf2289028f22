// The loop of all reductions, and the operations that it applies. Per-target header.
#if defined(KOLO_KERNELS_ZIP_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef KOLO_KERNELS_ZIP_INL_HPP
#undef KOLO_KERNELS_ZIP_INL_HPP
#else
#define KOLO_KERNELS_ZIP_INL_HPP
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/codec_inl.hpp"
#include "kernels/families.hpp"

HWY_BEFORE_NAMESPACE();
namespace kolo::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct Sum {
  template <class V>
  HWY_INLINE V operator()(V left, V right) const {
    return hn::Add(left, right);
  }
};

struct Product {
  template <class V>
  HWY_INLINE V operator()(V left, V right) const {
    return hn::Mul(left, right);
  }
};

// Highway does not define Min and Max of NaN, so floating types compare: a NaN on the left is taken, and one
// on the right wins because every comparison with it fails.
struct Min {
  template <class V>
  HWY_INLINE V operator()(V left, V right) const {
    if constexpr (hwy::IsFloat<hn::LaneType<V>>()) {
      return hn::IfThenElse(hn::Or(hn::IsNaN(left), hn::Lt(left, right)), left, right);
    } else {
      return hn::Min(left, right);
    }
  }
};

struct Max {
  template <class V>
  HWY_INLINE V operator()(V left, V right) const {
    if constexpr (hwy::IsFloat<hn::LaneType<V>>()) {
      return hn::IfThenElse(hn::Or(hn::IsNaN(left), hn::Gt(left, right)), left, right);
    } else {
      return hn::Max(left, right);
    }
  }
};

struct And {
  template <class V>
  HWY_INLINE V operator()(V left, V right) const {
    return hn::And(left, right);
  }
};

struct Or {
  template <class V>
  HWY_INLINE V operator()(V left, V right) const {
    return hn::Or(left, right);
  }
};

struct Xor {
  template <class V>
  HWY_INLINE V operator()(V left, V right) const {
    return hn::Xor(left, right);
  }
};

/// (left + right) / divisor.
template <typename Lane>
struct Average {
  Lane divisor;
  template <class V>
  HWY_INLINE V operator()(V left, V right) const {
    return hn::Div(hn::Add(left, right), hn::Set(hn::DFromV<V>(), divisor));
  }
};
/// The same, of finite numbers at most `largest`.
template <typename Lane>
struct LimitedAverage {
  Average<Lane> average;
  Lane largest;
  template <class V>
  HWY_INLINE V operator()(V left, V right) const {
    const hn::DFromV<V> d;
    const auto value = average(left, right);
    const auto limited = hn::Max(hn::Min(value, hn::Set(d, largest)), hn::Set(d, -largest));
    return hn::IfThenElse(hn::Lt(hn::Abs(value), hn::Inf(d)), limited, value);
  }
};

/// Scales the left operand; ignores the right one.
template <typename Lane>
struct Scale {
  Lane scale;
  template <class V>
  HWY_INLINE V operator()(V left, V) const {
    return hn::Mul(left, hn::Set(hn::DFromV<V>(), scale));
  }
};

/// out[i] = op(left[i], right[i]). `out` may be `left` or `right`: every element is read before it is
/// written.
template <class Codec, class Op>
HWY_INLINE void zip(void* out_bytes, const void* left_bytes, const void* right_bytes, std::size_t count,
                    Op op) {
  using Stored = typename Codec::Stored;
  auto* out = static_cast<Stored*>(out_bytes);
  const auto* left = static_cast<const Stored*>(left_bytes);
  const auto* right = static_cast<const Stored*>(right_bytes);
  const typename Codec::D d;
  const typename Codec::template Raw<typename Codec::D> raw;
  const std::size_t n = hn::Lanes(raw);
  const auto step = [&](std::size_t at) HWY_ATTR {
    const auto combined = Codec::combine(d, hn::LoadU(raw, left + at), hn::LoadU(raw, right + at), op);
    hn::StoreU(combined, raw, out + at);
  };

  std::size_t i = 0;
  for (; i + 4 * n <= count; i += 4 * n) {
    step(i);
    step(i + n);
    step(i + 2 * n);
    step(i + 3 * n);
  }
  for (; i + n <= count; i += n) step(i);

  // The rest goes through vectors on the stack: nothing beyond the arrays is read or written.
  if (const std::size_t rest = (count - i) * sizeof(Stored); rest != 0) {
    constexpr std::size_t kMost = hn::MaxLanes(raw);
    HWY_ALIGN Stored a[kMost] = {};
    HWY_ALIGN Stored b[kMost] = {};
    std::memcpy(a, left + i, rest);
    std::memcpy(b, right + i, rest);
    hn::Store(Codec::combine(d, hn::Load(raw, a), hn::Load(raw, b), op), raw, a);
    std::memcpy(out + i, a, rest);
  }
}

template <class Codec, class Op>
void reduce_with(void* out, const void* left, const void* right, std::size_t count) {
  zip<Codec>(out, left, right, count, Op());
}

/// A kernel for elements that are `kParts` elements of another type.
template <std::size_t kParts, ReduceFn kReduce>
void reduce_parts(void* out, const void* left, const void* right, std::size_t count) {
  kReduce(out, left, right, kParts * count);
}

/// The kernel of `op` for floating elements of one codec; null for custom.
template <class Codec>
ReduceFn pick_reduction(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average:
      return reduce_with<Codec, Sum>;
    case ReduceOp::product:
      return reduce_with<Codec, Product>;
    case ReduceOp::min:
      return reduce_with<Codec, Min>;
    case ReduceOp::max:
      return reduce_with<Codec, Max>;
    case ReduceOp::bit_and:
    case ReduceOp::bit_or:
    case ReduceOp::bit_xor:
    case ReduceOp::custom:
      break;
  }
  return nullptr;
}

/// find(std::type_identity<T>()) if the element type T of `dtype` is of the family, else null.
template <Family kFamily, typename Function, class Find>
Function find_in(DType dtype, Find find) {
  return with_type(dtype, [&]<typename T>(std::type_identity<T> type) -> Function {
    if constexpr (family_of(dtype_of<T>) == kFamily) {
      return find(type);
    } else {
      return nullptr;
    }
  });
}

/// The last step of an average.
template <class Codec>
auto average_of(std::uint64_t divisor) {
  using Lane = typename Codec::Lane;
  auto lane = static_cast<Lane>(divisor);
  if constexpr (Codec::kIsScaled) lane *= average_scale(sizeof(typename Codec::Stored), divisor);
  const Average<Lane> average{lane};
  if constexpr (Codec::kLargestAverage == 0) {
    return average;
  } else {
    return LimitedAverage<Lane>{average, Codec::kLargestAverage};
  }
}

template <class Codec>
void average_with(void* out, const void* left, const void* right, std::size_t count, std::uint64_t divisor) {
  zip<Codec>(out, left, right, count, average_of<Codec>(divisor));
}

template <class Codec, std::size_t kParts = 1>
void scale_with(void* out, const void* in, std::size_t count, double factor) {
  using Lane = typename Codec::Lane;
  zip<Codec>(out, in, in, kParts * count, Scale<Lane>{static_cast<Lane>(factor)});
}

}  // namespace kolo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard

// The loop of all folds: many arrays into one. Each input is read once and each result written once.
// Per-target header.
#if defined(KOLO_KERNELS_FOLD_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef KOLO_KERNELS_FOLD_INL_HPP
#undef KOLO_KERNELS_FOLD_INL_HPP
#else
#define KOLO_KERNELS_FOLD_INL_HPP
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "hwy/highway.h"
#include "kernels/families.hpp"
#include "kernels/zip_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace kolo::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The arguments of a fold.
template <typename Stored>
struct Arrays {
  void* const* outs;
  std::size_t out_count;
  const void* const* ins;
  std::size_t in_count;
  std::size_t count;

  Stored* out(std::size_t index) const { return static_cast<Stored*>(outs[index]); }
  const Stored* in(std::size_t index) const { return static_cast<const Stored*>(ins[index]); }
};

/// Leaves an input unchanged.
struct AsItIs {};

/// Combines with `op`, the last time with `last`: they differ for an average. Inputs go through `first`. All
/// inputs of an element are read before any output of it is written, so outputs may be the same arrays as
/// inputs.
template <class Codec, class Op, class Last, class First = AsItIs>
class Fold {
  using Stored = typename Codec::Stored;
  using D = typename Codec::D;
  using Raw = typename Codec::template Raw<D>;
  using V = hn::Vec<Raw>;

 public:
  HWY_INLINE Fold(Op op, Last last, First first = {}) : op_(op), last_(last), first_(first) {}

  HWY_INLINE void operator()(const Arrays<Stored>& arrays) const {
    if (arrays.in_count == 1) {
      copy_to_all(arrays.outs, arrays.out_count, arrays.ins[0], arrays.count * sizeof(Stored));
      return;
    }
    const std::size_t done = arrays.count < 4 * hn::Lanes(Raw()) ? 0 : whole_steps(arrays);
    if (done < arrays.count) rest(arrays, done);
  }

 private:
  /// What an input's vector `v` contributes.
  template <class Tag, class Vector>
  static HWY_INLINE Vector contribution([[maybe_unused]] Tag d, Vector v, [[maybe_unused]] First first) {
    if constexpr (std::is_same_v<First, AsItIs>) {
      return v;
    } else {
      return Codec::combine(d, v, v, first);
    }
  }

  // Four vectors of an array: enough loads in flight, few enough for the registers of every target. They are
  // variables of the loops and not a struct, because SVE vectors have no fixed size and cannot be members.
  static HWY_INLINE void load(const Stored* from, V& a, V& b, V& c, V& d, First first) {
    const D tag;
    const Raw raw;
    const std::size_t n = hn::Lanes(raw);
    a = contribution(tag, hn::LoadU(raw, from), first);
    b = contribution(tag, hn::LoadU(raw, from + n), first);
    c = contribution(tag, hn::LoadU(raw, from + 2 * n), first);
    d = contribution(tag, hn::LoadU(raw, from + 3 * n), first);
  }
  static HWY_INLINE void store(V a, V b, V c, V d, Stored* to) {
    const Raw raw;
    const std::size_t n = hn::Lanes(raw);
    hn::StoreU(a, raw, to);
    hn::StoreU(b, raw, to + n);
    hn::StoreU(c, raw, to + 2 * n);
    hn::StoreU(d, raw, to + 3 * n);
  }
  template <class Operation>
  static HWY_INLINE void combine(V& a, V& b, V& c, V& d, const Stored* from, Operation operation,
                                 First first) {
    const D tag;
    V other_a, other_b, other_c, other_d;
    load(from, other_a, other_b, other_c, other_d, first);
    a = Codec::combine(tag, a, other_a, operation);
    b = Codec::combine(tag, b, other_b, operation);
    c = Codec::combine(tag, c, other_c, operation);
    d = Codec::combine(tag, d, other_d, operation);
  }

  /// Four vectors at a time; returns the number of elements done.
  static constexpr bool kFewApart = sizeof(Stored) == sizeof(typename Codec::Lane);
  HWY_INLINE std::size_t whole_steps(const Arrays<Stored>& arrays) const {
    // Without conversion, the loops for few arrays are up to 1.3 times as fast within the caches.
    if constexpr (kFewApart) {
      if (arrays.out_count == arrays.in_count) {
        switch (arrays.in_count) {
          case 2:
            return few(arrays, std::index_sequence<0, 1>(), std::index_sequence<>());
          case 3:
            return few(arrays, std::index_sequence<0, 1, 2>(), std::index_sequence<1>());
          case 4:
            return few(arrays, std::index_sequence<0, 1, 2, 3>(), std::index_sequence<1, 2>());
          default:
            break;
        }
      }
    }
    return many(arrays);
  }

  /// For as many outputs as inputs, and few of them: all pointers stay in registers. `kMiddle`: all inputs
  /// except the first and the last.
  template <std::size_t... kAll, std::size_t... kMiddle>
  HWY_NOINLINE std::size_t few(const Arrays<Stored>& arrays, std::index_sequence<kAll...>,
                               std::index_sequence<kMiddle...>) const {
    constexpr std::size_t kLast = sizeof...(kAll) - 1;
    Stored* const outs[] = {arrays.out(kAll)...};
    const Stored* const ins[] = {arrays.in(kAll)...};
    const std::size_t count = arrays.count;
    const std::size_t step = 4 * hn::Lanes(Raw());
    [[maybe_unused]] const Op op = op_;  // not used for two inputs
    const Last last = last_;
    const First first = first_;
    std::size_t i = 0;
    for (; i + step <= count; i += step) {
      V a, b, c, d;
      load(ins[0] + i, a, b, c, d, first);
      (combine(a, b, c, d, ins[kMiddle] + i, op, first), ...);
      combine(a, b, c, d, ins[kLast] + i, last, first);
      (store(a, b, c, d, outs[kAll] + i), ...);
    }
    return i;
  }

  HWY_NOINLINE std::size_t many(const Arrays<Stored>& arrays) const {
    const std::size_t step = 4 * hn::Lanes(Raw());
    const std::size_t final = arrays.in_count - 1;
    std::size_t i = 0;
    for (; i + step <= arrays.count; i += step) {
      V a, b, c, d;
      load(arrays.in(0) + i, a, b, c, d, first_);
      for (std::size_t k = 1; k < final; ++k) combine(a, b, c, d, arrays.in(k) + i, op_, first_);
      combine(a, b, c, d, arrays.in(final) + i, last_, first_);
      for (std::size_t k = 0; k < arrays.out_count; ++k) store(a, b, c, d, arrays.out(k) + i);
    }
    return i;
  }

  /// From element `i` on, in shorter and shorter vectors: nothing beyond the arrays is read or written.
  HWY_NOINLINE void rest(const Arrays<Stored>& arrays, std::size_t i) const {
    using Lane = typename Codec::Lane;
    const hn::CappedTag<Lane, 1> one;
    const typename Codec::template Raw<decltype(one)> raw;
    i = single_steps(arrays, D(), i);
    i = single_steps(arrays, hn::CappedTag<Lane, 4>(), i);
    // The last elements go one by one through aligned memory: a single float may be stored at any address, a
    // vector not on every target.
    for (; i < arrays.count; ++i) {
      HWY_ALIGN Stored last[hn::MaxLanes(raw)] = {};
      const auto sum = folded(one, arrays.in_count, [&](std::size_t k) HWY_ATTR {
        std::memcpy(last, arrays.in(k) + i, sizeof(Stored));
        return hn::Load(raw, last);
      });
      hn::Store(sum, raw, last);
      for (std::size_t k = 0; k < arrays.out_count; ++k) {
        std::memcpy(arrays.out(k) + i, last, sizeof(Stored));
      }
    }
  }

  /// Repeats while another vector of `Tag` fits; returns where the next one would begin.
  template <class Tag>
  HWY_INLINE std::size_t single_steps(const Arrays<Stored>& arrays, Tag d, std::size_t i) const {
    const typename Codec::template Raw<Tag> raw;
    for (const std::size_t n = hn::Lanes(raw); i + n <= arrays.count; i += n) {
      const auto sum = folded(d, arrays.in_count,
                              [&](std::size_t k) HWY_ATTR { return hn::LoadU(raw, arrays.in(k) + i); });
      for (std::size_t k = 0; k < arrays.out_count; ++k) hn::StoreU(sum, raw, arrays.out(k) + i);
    }
    return i;
  }

  /// Combines one vector of each input, loaded by `vector_of`.
  template <class Tag, class VectorOf>
  HWY_INLINE auto folded(Tag d, std::size_t in_count, VectorOf vector_of) const {
    const auto taken = [&](std::size_t k) HWY_ATTR { return contribution(d, vector_of(k), first_); };
    auto sum = taken(0);
    for (std::size_t k = 1; k + 1 < in_count; ++k) sum = Codec::combine(d, sum, taken(k), op_);
    return Codec::combine(d, sum, taken(in_count - 1), last_);
  }

  Op op_;
  Last last_;
  First first_;
};

template <class Codec, class Op>
void fold_with(void* const* outs, std::size_t out_count, const void* const* ins, std::size_t in_count,
               std::size_t count, std::uint64_t) {
  Fold<Codec, Op, Op>(Op(), Op())({outs, out_count, ins, in_count, count});
}

template <class Codec>
void fold_average(void* const* outs, std::size_t out_count, const void* const* ins, std::size_t in_count,
                  std::size_t count, std::uint64_t divisor) {
  const auto last = average_of<Codec>(divisor);
  using Last = decltype(average_of<Codec>(divisor));
  if constexpr (Codec::kIsScaled) {
    const Scale<float> first{average_scale(sizeof(typename Codec::Stored), divisor)};
    Fold<Codec, Sum, Last, Scale<float>>(Sum(), last, first)({outs, out_count, ins, in_count, count});
  } else {
    Fold<Codec, Sum, Last>(Sum(), last)({outs, out_count, ins, in_count, count});
  }
}

/// The fused kernel of `op` for the elements of one floating codec; null where there is none.
template <class Codec>
FoldFn pick_fold(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return fold_with<Codec, Sum>;
    case ReduceOp::min:
      return fold_with<Codec, Min>;
    case ReduceOp::max:
      return fold_with<Codec, Max>;
    case ReduceOp::average:
      return fold_average<Codec>;
    default:
      return nullptr;
  }
}

}  // namespace kolo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard

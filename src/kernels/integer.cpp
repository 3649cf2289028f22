// Integers of 8 to 64 bits, and booleans.
#include "kernels/families.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/integer.cpp"
#include "hwy/foreach_target.h"
// Per-target headers come after foreach_target.h.
#include "kernels/zip_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace kolo::kernels::HWY_NAMESPACE {

/// A kernel of bits, for elements of `kBytes`.
template <std::size_t kBytes, class Op>
void combine_bits(void* out, const void* left, const void* right, std::size_t count) {
  reduce_parts<kBytes, reduce_with<PlainCodec<std::uint8_t>, Op>>(out, left, right, count);
}

template <typename T>
ReduceFn pick_integer(ReduceOp op) {
  // Sums and products wrap, so signed and unsigned ones have the same bits.
  using Wrapping = PlainCodec<std::make_unsigned_t<T>>;
  switch (op) {
    case ReduceOp::sum:
      return reduce_with<Wrapping, Sum>;
    case ReduceOp::product:
      return reduce_with<std::conditional_t<sizeof(T) == 1, ByteCodec, Wrapping>, Product>;
    case ReduceOp::min:
      return reduce_with<PlainCodec<T>, Min>;
    case ReduceOp::max:
      return reduce_with<PlainCodec<T>, Max>;
    case ReduceOp::bit_and:
      return combine_bits<sizeof(T), And>;
    case ReduceOp::bit_or:
      return combine_bits<sizeof(T), Or>;
    case ReduceOp::bit_xor:
      return combine_bits<sizeof(T), Xor>;
    case ReduceOp::average:
    case ReduceOp::custom:
      break;
  }
  return nullptr;
}

ReduceFn pick_boolean(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::max:
    case ReduceOp::bit_or:
      return combine_bits<1, Or>;
    case ReduceOp::product:
    case ReduceOp::min:
    case ReduceOp::bit_and:
      return combine_bits<1, And>;
    case ReduceOp::bit_xor:
      return combine_bits<1, Xor>;
    case ReduceOp::average:
    case ReduceOp::custom:
      break;
  }
  return nullptr;
}

ReduceFn find_integer(DType dtype, ReduceOp op) {
  return find_in<Family::integer, ReduceFn>(dtype, [&]<typename T>(std::type_identity<T>) {
    if constexpr (std::is_same_v<T, bool>) {
      return pick_boolean(op);
    } else {
      return pick_integer<T>(op);
    }
  });
}

}  // namespace kolo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kolo::kernels {

HWY_EXPORT(find_integer);

ReduceFn integer_reduction(DType dtype, ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(find_integer)(dtype, op);
}

}  // namespace kolo::kernels
#endif  // HWY_ONCE

// Integers of 8 to 64 bits.
#include "kernels/families.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/integer.cpp"
#include "hwy/foreach_target.h"
// Per-target headers come after foreach_target.h.
#include "kernels/zip_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace kolo::kernels::HWY_NAMESPACE {

/// Sums wrap, so signed and unsigned sums have the same bits.
ReduceFn find_integer_sum(std::size_t size) {
  switch (size) {
    case 1:
      return reduce_with<PlainCodec<std::uint8_t>, Sum>;
    case 2:
      return reduce_with<PlainCodec<std::uint16_t>, Sum>;
    case 4:
      return reduce_with<PlainCodec<std::uint32_t>, Sum>;
    default:
      return reduce_with<PlainCodec<std::uint64_t>, Sum>;
  }
}

/// Products wrap, so signed and unsigned products have the same bits.
ReduceFn find_integer_product(std::size_t size) {
  switch (size) {
    case 1:
      return reduce_with<ByteCodec, Product>;
    case 2:
      return reduce_with<PlainCodec<std::uint16_t>, Product>;
    case 4:
      return reduce_with<PlainCodec<std::uint32_t>, Product>;
    default:
      return reduce_with<PlainCodec<std::uint64_t>, Product>;
  }
}

template <class Op>
ReduceFn find_integer_extreme(DType dtype) {
  switch (dtype) {
    case DType::int8:
      return reduce_with<PlainCodec<std::int8_t>, Op>;
    case DType::int16:
      return reduce_with<PlainCodec<std::int16_t>, Op>;
    case DType::int32:
      return reduce_with<PlainCodec<std::int32_t>, Op>;
    case DType::int64:
      return reduce_with<PlainCodec<std::int64_t>, Op>;
    case DType::uint8:
      return reduce_with<PlainCodec<std::uint8_t>, Op>;
    case DType::uint16:
      return reduce_with<PlainCodec<std::uint16_t>, Op>;
    case DType::uint32:
      return reduce_with<PlainCodec<std::uint32_t>, Op>;
    default:
      return reduce_with<PlainCodec<std::uint64_t>, Op>;
  }
}

ReduceFn find_integer(DType dtype, ReduceOp op) {
  switch (op) {
    case ReduceOp::product:
      return find_integer_product(size_of(dtype));
    case ReduceOp::min:
      return find_integer_extreme<Min>(dtype);
    case ReduceOp::max:
      return find_integer_extreme<Max>(dtype);
    default:
      return find_integer_sum(size_of(dtype));
  }
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

// The meaning of every kernel, one element at a time.
#include <cmath>
#include <type_traits>

#include "kernels/element.hpp"
#include "kernels/families.hpp"

namespace kolo::kernels::reference {
namespace {

/// The 16-bit types are computed in float32.
template <typename T>
auto widen(T value) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
    return to_float(value);
  } else {
    return value;
  }
}

template <typename T, typename Computed>
T narrow(Computed value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return to_float16(value);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(value);
  } else {
    return value;
  }
}

/// Integers add and multiply as unsigned 64-bit numbers and keep the low bits: they wrap.
template <typename C>
C add(C left, C right) {
  if constexpr (std::is_integral_v<C>) {
    return static_cast<C>(static_cast<std::uint64_t>(left) + static_cast<std::uint64_t>(right));
  } else {
    return left + right;
  }
}

template <typename C>
C multiply(C left, C right) {
  if constexpr (std::is_integral_v<C>) {
    return static_cast<C>(static_cast<std::uint64_t>(left) * static_cast<std::uint64_t>(right));
  } else {
    return left * right;
  }
}

/// A comparison with NaN is always false, so NaN is checked first.
template <typename C>
bool is_nan(C value) {
  if constexpr (std::is_floating_point_v<C>) {
    return std::isnan(value);
  } else {
    return false;
  }
}

template <typename C>
C combine(ReduceOp op, C left, C right) {
  switch (op) {
    case ReduceOp::product:
      return multiply(left, right);
    case ReduceOp::min:
      return is_nan(left) || left < right ? left : right;
    case ReduceOp::max:
      return is_nan(left) || left > right ? left : right;
    default:
      return add(left, right);
  }
}

template <typename C>
C divide(C sum, std::uint64_t divisor) {
  if constexpr (std::is_floating_point_v<C>) {
    return sum / static_cast<C>(divisor);
  } else if constexpr (std::is_unsigned_v<C>) {
    return static_cast<C>(sum / divisor);
  } else {
    const std::uint64_t magnitude =
        sum < 0 ? 0 - static_cast<std::uint64_t>(sum) : static_cast<std::uint64_t>(sum);
    const std::uint64_t quotient = magnitude / divisor;
    return static_cast<C>(sum < 0 ? 0 - quotient : quotient);
  }
}

template <typename T>
struct Tag {
  using type = T;
};

/// Calls visit(Tag<T>()) with the C++ type of `dtype`.
template <typename Visitor>
void visit(DType dtype, Visitor visitor) {
  switch (dtype) {
    case DType::float32:
      return visitor(Tag<float>());
    case DType::float64:
      return visitor(Tag<double>());
    case DType::float16:
      return visitor(Tag<Float16>());
    case DType::bfloat16:
      return visitor(Tag<BFloat16>());
    case DType::int8:
      return visitor(Tag<std::int8_t>());
    case DType::int16:
      return visitor(Tag<std::int16_t>());
    case DType::int32:
      return visitor(Tag<std::int32_t>());
    case DType::int64:
      return visitor(Tag<std::int64_t>());
    case DType::uint8:
      return visitor(Tag<std::uint8_t>());
    case DType::uint16:
      return visitor(Tag<std::uint16_t>());
    case DType::uint32:
      return visitor(Tag<std::uint32_t>());
    case DType::uint64:
      return visitor(Tag<std::uint64_t>());
  }
}

}  // namespace

void reduce(DType dtype, ReduceOp op, void* out, const void* left, const void* right, std::size_t count) {
  visit(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::size_t i = 0; i < count; ++i) {
      const auto value = combine(op, widen(load_element<T>(left, i)), widen(load_element<T>(right, i)));
      store_element(out, i, narrow<T>(value));
    }
  });
}

void scale(DType dtype, void* out, const void* in, std::size_t count, std::uint64_t divisor) {
  visit(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::size_t i = 0; i < count; ++i) {
      T value = load_element<T>(in, i);
      if constexpr (std::is_same_v<T, Float16>) value = narrow<T>(widen(value) * float16_scale_of(divisor));
      store_element(out, i, value);
    }
  });
}

void average(DType dtype, void* out, const void* left, const void* right, std::size_t count,
             std::uint64_t divisor) {
  visit(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::size_t i = 0; i < count; ++i) {
      const auto sum = add(widen(load_element<T>(left, i)), widen(load_element<T>(right, i)));
      if constexpr (std::is_same_v<T, Float16>) {
        store_element(out, i, narrow<T>(sum / (static_cast<float>(divisor) * float16_scale_of(divisor))));
      } else {
        store_element(out, i, narrow<T>(divide(sum, divisor)));
      }
    }
  });
}

}  // namespace kolo::kernels::reference

// The meaning of every kernel, one element at a time.
#include <algorithm>
#include <cmath>
#include <complex>
#include <type_traits>

#include "base/element.hpp"
#include "kernels/families.hpp"

namespace kolo::kernels::reference {
namespace {

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
  } else if constexpr (is_complex(dtype_of<C>)) {
    return {left.real() * right.real() - left.imag() * right.imag(),
            left.real() * right.imag() + left.imag() * right.real()};
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
      if constexpr (!is_complex(dtype_of<C>)) return is_nan(left) || left < right ? left : right;
      break;
    case ReduceOp::max:
      if constexpr (!is_complex(dtype_of<C>)) return is_nan(left) || left > right ? left : right;
      break;
    case ReduceOp::bit_and:
      if constexpr (std::is_integral_v<C>) return static_cast<C>(left & right);
      break;
    case ReduceOp::bit_or:
      if constexpr (std::is_integral_v<C>) return static_cast<C>(left | right);
      break;
    case ReduceOp::bit_xor:
      if constexpr (std::is_integral_v<C>) return static_cast<C>(left ^ right);
      break;
    case ReduceOp::sum:
    case ReduceOp::average:
    case ReduceOp::custom:
      break;
  }
  return add(left, right);
}

}  // namespace

void reduce(DType dtype, ReduceOp op, void* out, const void* left, const void* right, std::size_t count) {
  with_type(dtype, [&]<typename T>(std::type_identity<T>) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto value = combine(op, widen(load_element<T>(left, i)), widen(load_element<T>(right, i)));
      store_element(out, i, narrow<T>(value));
    }
  });
}

void scale(DType dtype, void* out, const void* in, std::size_t count, double factor) {
  with_type(dtype, [&]<typename T>(std::type_identity<T>) {
    using Real = decltype(std::real(widen(T())));
    for (std::size_t i = 0; i < count; ++i) {
      store_element(out, i, narrow<T>(widen(load_element<T>(in, i)) * static_cast<Real>(factor)));
    }
  });
}

void average(DType dtype, void* out, const void* left, const void* right, std::size_t count,
             std::uint64_t divisor) {
  with_type(dtype, [&]<typename T>(std::type_identity<T>) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto sum = add(widen(load_element<T>(left, i)), widen(load_element<T>(right, i)));
      if constexpr (is_scaled(dtype_of<T>)) {
        float value = sum / (static_cast<float>(divisor) * average_scale(sizeof(T), divisor));
        if (std::isfinite(value)) value = std::clamp(value, -kLargestAverage<T>, kLargestAverage<T>);
        store_element(out, i, narrow<T>(value));
      } else if constexpr (is_complex(dtype_of<T>)) {
        store_element(out, i, sum / static_cast<typename T::value_type>(divisor));
      } else if constexpr (is_floating(dtype_of<T>)) {
        store_element(out, i, narrow<T>(sum / static_cast<decltype(sum)>(divisor)));
      }
    }
  });
}

}  // namespace kolo::kernels::reference

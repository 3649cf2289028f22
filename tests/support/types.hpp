// All element types and all built-in operations, for tests of each of them.
#pragma once

#include <array>
#include <limits>

#include "kolo/dtype.hpp"
#include "kolo/reduction.hpp"

namespace kolo::test {

template <typename Enum, int kCount>
constexpr std::array<Enum, kCount> first_of() {
  std::array<Enum, kCount> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Enum>(i);
  return all;
}

inline constexpr auto kDTypes = first_of<DType, kDTypeCount>();
inline constexpr auto kReduceOps = first_of<ReduceOp, kReduceOpCount>();

/// The type of the two parts of a complex type.
constexpr DType part_of(DType complex) {
  return complex == DType::complex64 ? DType::float32 : DType::float64;
}

/// NaN if the number is complex and not real.
template <typename Number>
double as_double(Number number) {
  if constexpr (requires { number.imag(); }) {
    return number.imag() == 0 ? number.real() : std::numeric_limits<double>::quiet_NaN();
  } else {
    return static_cast<double>(number);
  }
}

}  // namespace kolo::test

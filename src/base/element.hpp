// Single elements: access at any alignment, and code that is written once for all element types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "kolo/dtype.hpp"

namespace kolo {

template <typename T>
T load_element(const void* array, std::size_t i) {
  T value;
  std::memcpy(&value, static_cast<const std::uint8_t*>(array) + i * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void store_element(void* array, std::size_t i, T value) {
  std::memcpy(static_cast<std::uint8_t*>(array) + i * sizeof(T), &value, sizeof(T));
}

/// Returns visitor(std::type_identity<T>()), where T is the C++ type of `dtype`; a default value if `dtype`
/// is no type.
template <typename Visitor>
constexpr auto with_type(DType dtype, Visitor visitor) {
  switch (dtype) {
#define KOLO_ROW(name, NAME, Type, ...) \
  case DType::name:                     \
    return visitor(std::type_identity<Type>());
    KOLO_ELEMENT_TYPES(KOLO_ROW)
#undef KOLO_ROW
  }
  return decltype(visitor(std::type_identity<float>()))();
}

/// What reductions compute with in place of a stored element.
template <typename T>
auto widen(T value) {
  if constexpr (element_type(dtype_of<T>).computed == dtype_of<T>) {
    return value;
  } else {
    return to_float(value);
  }
}

/// The stored element that is nearest to `number`, converted to what reductions compute with.
template <typename T, typename Number>
T narrow(Number number) {
  const auto computed = static_cast<decltype(widen(T()))>(number);
  if constexpr (std::is_same_v<T, Float16>) {
    return to_float16(computed);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(computed);
  } else if constexpr (std::is_same_v<T, Float8E4M3FN>) {
    return to_float8_e4m3fn(computed);
  } else if constexpr (std::is_same_v<T, Float8E5M2>) {
    return to_float8_e5m2(computed);
  } else {
    return computed;
  }
}

/// Rounds to numbers of a floating type.
inline void round_to(DType dtype, std::span<float> numbers) {
  with_type(dtype, [&]<typename T>(std::type_identity<T>) {
    if constexpr (is_floating(dtype_of<T>))
      for (float& number : numbers) number = static_cast<float>(widen(narrow<T>(number)));
  });
}

}  // namespace kolo

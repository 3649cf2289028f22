// Element types: the scalar types that collectives move and reduce.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kolo {

/// Raw storage of an IEEE 754 binary16 number. kolo reduces it with 32-bit arithmetic inside each kernel.
struct Float16 {
  std::uint16_t bits = 0;  ///< as they lie in memory
};

/// Raw storage of a bfloat16 number: the upper half of a float32.
struct BFloat16 {
  std::uint16_t bits = 0;  ///< as they lie in memory
};

/// Conversions round to nearest, ties to even; NaN stays NaN.
Float16 to_float16(float value) noexcept;
BFloat16 to_bfloat16(float value) noexcept;
float to_float(Float16 value) noexcept;
float to_float(BFloat16 value) noexcept;

/// The twelve element types.
enum class DType : std::uint8_t {
  float32,
  float64,
  float16,
  bfloat16,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
};

/// Number of element types.
inline constexpr int kDTypeCount = 12;

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::int8:
    case DType::uint8:
      return 1;
    case DType::float16:
    case DType::bfloat16:
    case DType::int16:
    case DType::uint16:
      return 2;
    case DType::float32:
    case DType::int32:
    case DType::uint32:
      return 4;
    case DType::float64:
    case DType::int64:
    case DType::uint64:
      return 8;
  }
  return 0;
}

/// Whether the type is a floating-point type.
constexpr bool is_floating(DType dtype) noexcept {
  return dtype == DType::float32 || dtype == DType::float64 || dtype == DType::float16 ||
         dtype == DType::bfloat16;
}

/// The name as in the enumeration: "float32", "bfloat16", ...
std::string_view name_of(DType dtype) noexcept;

/// The inverse of name_of(); accepts no other names. Returns false when there is no such type.
bool parse_dtype(std::string_view name, DType& out) noexcept;

/// dtype_of<T>: the DType of a C++ scalar type; defined for the twelve element types and std::byte (as
/// uint8).
template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::float32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::float64;
};
template <>
struct DTypeOf<Float16> {
  static constexpr DType value = DType::float16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::bfloat16;
};
template <>
struct DTypeOf<std::int8_t> {
  static constexpr DType value = DType::int8;
};
template <>
struct DTypeOf<std::int16_t> {
  static constexpr DType value = DType::int16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::int32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::int64;
};
template <>
struct DTypeOf<long long> {
  static constexpr DType value = DType::int64;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::uint8;
};
template <>
struct DTypeOf<std::uint16_t> {
  static constexpr DType value = DType::uint16;
};
template <>
struct DTypeOf<std::uint32_t> {
  static constexpr DType value = DType::uint32;
};
template <>
struct DTypeOf<std::uint64_t> {
  static constexpr DType value = DType::uint64;
};
template <>
struct DTypeOf<unsigned long long> {
  static constexpr DType value = DType::uint64;
};
template <>
struct DTypeOf<std::byte> {
  static constexpr DType value = DType::uint8;
};

/// The C++ types that have a DType.
template <typename T>
concept Element = requires {
  DTypeOf<T>::value;
};

/// The DType of a C++ type.
template <Element T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

}  // namespace kolo

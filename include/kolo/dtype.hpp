// Element types: the scalar types that collectives move and reduce.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <iterator>
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

/// Raw storage of an 8-bit number with 4 bits of exponent and 3 of mantissa, up to 448 and without infinity.
struct Float8E4M3FN {
  std::uint8_t bits = 0;  ///< as they lie in memory
};

/// Raw storage of an 8-bit number with 5 bits of exponent and 2 of mantissa: the upper half of a float16.
struct Float8E5M2 {
  std::uint8_t bits = 0;  ///< as they lie in memory
};

/// Conversions round to nearest, ties to even; NaN stays NaN. What is too large becomes infinity, in
/// Float8E4M3FN NaN.
Float16 to_float16(float value) noexcept;
BFloat16 to_bfloat16(float value) noexcept;
Float8E4M3FN to_float8_e4m3fn(float value) noexcept;
Float8E5M2 to_float8_e5m2(float value) noexcept;
float to_float(Float16 value) noexcept;
float to_float(BFloat16 value) noexcept;
float to_float(Float8E4M3FN value) noexcept;
float to_float(Float8E5M2 value) noexcept;

/// What the numbers of a type are.
enum class NumberKind : std::uint8_t { floating, signed_integer, unsigned_integer, boolean, complex };

/// The element types, a row each: enumerator, its name in kolo.h, C++ type, the type that reductions compute
/// with, kind of number, significant bits of a number. All that depends on the element type reads these rows.
#define KOLO_ELEMENT_TYPES(ROW)                                                        \
  ROW(float32, FLOAT32, float, float, floating, 24)                                    \
  ROW(float64, FLOAT64, double, double, floating, 53)                                  \
  ROW(float16, FLOAT16, Float16, float, floating, 11)                                  \
  ROW(bfloat16, BFLOAT16, BFloat16, float, floating, 8)                                \
  ROW(int8, INT8, std::int8_t, std::int8_t, signed_integer, 7)                         \
  ROW(int16, INT16, std::int16_t, std::int16_t, signed_integer, 15)                    \
  ROW(int32, INT32, std::int32_t, std::int32_t, signed_integer, 31)                    \
  ROW(int64, INT64, std::int64_t, std::int64_t, signed_integer, 63)                    \
  ROW(uint8, UINT8, std::uint8_t, std::uint8_t, unsigned_integer, 8)                   \
  ROW(uint16, UINT16, std::uint16_t, std::uint16_t, unsigned_integer, 16)              \
  ROW(uint32, UINT32, std::uint32_t, std::uint32_t, unsigned_integer, 32)              \
  ROW(uint64, UINT64, std::uint64_t, std::uint64_t, unsigned_integer, 64)              \
  ROW(boolean, BOOLEAN, bool, bool, boolean, 1)                                        \
  ROW(complex64, COMPLEX64, std::complex<float>, std::complex<float>, complex, 24)     \
  ROW(complex128, COMPLEX128, std::complex<double>, std::complex<double>, complex, 53) \
  ROW(float8_e4m3fn, FLOAT8_E4M3FN, Float8E4M3FN, float, floating, 4)                  \
  ROW(float8_e5m2, FLOAT8_E5M2, Float8E5M2, float, floating, 3)

/// The enumerator of a row.
#define KOLO_ENUMERATOR(name, ...) name,

/// The element types: the first column of `KOLO_ELEMENT_TYPES`.
enum class DType : std::uint8_t { KOLO_ELEMENT_TYPES(KOLO_ENUMERATOR) };

/// The DType of a C++ scalar type. Defined for the types of the table; long long, unsigned long long and
/// std::byte count as integers of their size.
template <typename T>
struct DTypeOf;
/// The DTypeOf of a row.
#define KOLO_DTYPE_OF(name, NAME, Type, ...)    \
  template <>                                   \
  struct DTypeOf<Type> {                        \
    static constexpr DType value = DType::name; \
  };
KOLO_ELEMENT_TYPES(KOLO_DTYPE_OF)
template <>
struct DTypeOf<long long> : DTypeOf<std::int64_t> {};
template <>
struct DTypeOf<unsigned long long> : DTypeOf<std::uint64_t> {};
template <>
struct DTypeOf<std::byte> : DTypeOf<std::uint8_t> {};

/// The C++ types that have a DType.
template <typename T>
concept Element = requires {
  DTypeOf<T>::value;
};

/// The DType of a C++ type.
template <Element T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

/// A row of the table.
struct ElementType {
  std::string_view name;  ///< as in the enumeration
  std::size_t bytes = 0;  ///< of one element
  DType computed = {};    ///< the type that reductions compute with
  NumberKind kind = {};   ///< what its numbers are
  int digits = 0;         ///< significant bits of a number, as std::numeric_limits<T>::digits
};

/// The ElementType of a row.
#define KOLO_ELEMENT_TYPE(name, NAME, Type, Computed, kind, digits) \
  ElementType{#name, sizeof(Type), dtype_of<Computed>, NumberKind::kind, digits},

/// The table, in the order of the enumeration.
inline constexpr ElementType kElementTypes[] = {KOLO_ELEMENT_TYPES(KOLO_ELEMENT_TYPE)};

/// Number of element types.
inline constexpr int kDTypeCount = std::size(kElementTypes);

/// The row of a type of the enumeration.
constexpr const ElementType& element_type(DType dtype) noexcept {
  return kElementTypes[static_cast<std::size_t>(dtype)];
}

/// Bytes of one element; 0 of a value that is no type.
constexpr std::size_t size_of(DType dtype) noexcept {
  return static_cast<int>(dtype) < kDTypeCount ? element_type(dtype).bytes : 0;
}

/// Whether the numbers are complex.
constexpr bool is_complex(DType dtype) noexcept {
  return element_type(dtype).kind == NumberKind::complex;
}

/// Whether the type is a floating-point type.
constexpr bool is_floating(DType dtype) noexcept {
  return element_type(dtype).kind == NumberKind::floating;
}

/// The name as in the enumeration: "float32", "bfloat16", ...
std::string_view name_of(DType dtype) noexcept;

/// The inverse of name_of(); accepts no other names. Returns false when there is no such type.
bool parse_dtype(std::string_view name, DType& out) noexcept;

}  // namespace kolo

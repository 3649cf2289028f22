#include "kolo/dtype.hpp"

#include <bit>

namespace kolo {
namespace {

constexpr std::uint32_t kFloat32Infinity = 0x7F800000;

}  // namespace

std::string_view name_of(DType dtype) noexcept {
  return static_cast<int>(dtype) < kDTypeCount ? element_type(dtype).name : "unknown";
}

bool parse_dtype(std::string_view name, DType& out) noexcept {
  for (const ElementType& type : kElementTypes) {
    if (type.name != name) continue;
    out = static_cast<DType>(&type - kElementTypes);
    return true;
  }
  return false;
}

Float16 to_float16(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000;
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;

  std::uint32_t half;
  if (magnitude > kFloat32Infinity) {
    half = 0x7E00 | ((magnitude >> 13) & 0x3FF);  // a quiet NaN with as much of the payload as fits
  } else if (magnitude >= 0x477FF000) {           // 65520, the tie above the largest finite number
    half = 0x7C00;
  } else if (magnitude < 0x38800000) {  // below 2^-14, the smallest normal number
    // The sum's last place is 2^-24, float16's subnormal step, so the addition itself rounds to nearest even.
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3F000000;
  } else {
    // Rebias the exponent by 15 - 127; adding half a step, less one when even, makes the shift round to even.
    half = (magnitude - 0x38000000 + 0xFFF + ((magnitude >> 13) & 1)) >> 13;
  }
  return Float16{static_cast<std::uint16_t>(sign | half)};
}

float to_float(Float16 value) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000) << 16;
  const std::uint32_t exponent = value.bits & 0x7C00;
  const std::uint32_t shifted = static_cast<std::uint32_t>(value.bits & 0x7FFF) << 13;

  std::uint32_t magnitude;
  if (exponent == 0x7C00) {
    magnitude = shifted | kFloat32Infinity;
  } else if (exponent == 0) {
    // Put the mantissa under the exponent of 2^-14; the subtraction then removes the implicit leading one.
    magnitude = std::bit_cast<std::uint32_t>(std::bit_cast<float>(shifted + 0x38800000) - 0x1p-14f);
  } else {
    magnitude = shifted + 0x38000000;
  }
  return std::bit_cast<float>(sign | magnitude);
}

BFloat16 to_bfloat16(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  // Rounding could carry a NaN's mantissa into infinity, so a NaN is truncated and made quiet.
  const bool nan = (bits & 0x7FFFFFFF) > kFloat32Infinity;
  const std::uint32_t rounded = nan ? (bits | 0x400000) : bits + 0x7FFF + ((bits >> 16) & 1);
  return BFloat16{static_cast<std::uint16_t>(rounded >> 16)};
}

float to_float(BFloat16 value) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

}  // namespace kolo

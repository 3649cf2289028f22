#include "kolo/dtype.hpp"

#include <bit>
#include <limits>

#include "base/short_float.hpp"

namespace kolo {
namespace {

constexpr std::uint32_t kFloat32Infinity = 0x7F800000;

template <ShortFloat kFormat>
std::uint32_t encode(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;
  constexpr int kShift = kFormat.shift();

  std::uint32_t encoded;
  if (magnitude > kFloat32Infinity) {
    encoded = kFormat.nan |
              (magnitude >> kShift & ((1u << kFormat.mantissa) - 1));  // with what fits of the payload
  } else if (magnitude >= kFormat.too_large) {
    encoded = kFormat.infinity;
  } else if (magnitude < kFormat.least_normal()) {
    // The sum's last place is the step of subnormal numbers, so the addition itself rounds to nearest even.
    const float step = std::bit_cast<float>(kFormat.subnormal_step());
    encoded = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + step) - kFormat.subnormal_step();
  } else {
    // Adding half a step, less one when even, makes the shift round to even.
    encoded = (magnitude - kFormat.rebias() + kFormat.below_half() + (magnitude >> kShift & 1)) >> kShift;
  }
  return bits >> 31 << (kFormat.bits - 1) | encoded;
}

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
  return {static_cast<std::uint16_t>(encode<kFloat16Format>(value))};
}

Float8E4M3FN to_float8_e4m3fn(float value) noexcept {
  return {static_cast<std::uint8_t>(encode<kFloat8E4M3FNFormat>(value))};
}

Float8E5M2 to_float8_e5m2(float value) noexcept {
  return {static_cast<std::uint8_t>(encode<kFloat8E5M2Format>(value))};
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

float to_float(Float8E4M3FN value) noexcept {
  const unsigned sign = (value.bits & 0x80u) << 8;
  const unsigned magnitude = value.bits & 0x7Fu;
  if (magnitude == 0x7F) return std::numeric_limits<float>::quiet_NaN();
  return 0x1p8f *
         to_float(Float16{static_cast<std::uint16_t>(sign | magnitude << 7)});  // its exponent is less by 8
}

float to_float(Float8E5M2 value) noexcept {
  return to_float(Float16{static_cast<std::uint16_t>(value.bits << 8)});
}

}  // namespace kolo

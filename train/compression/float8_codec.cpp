#include "compression/scaled_codec.hpp"

namespace kolo::train {
namespace {

/// A sign, four bits of exponent with bias 7, three bits of mantissa; 2^-6 is the least normal number.
struct E4m3 {
  static constexpr std::string_view kName = "float8";
  static constexpr float kLargest = 448;

  static std::uint8_t to_byte(float scaled) {
    const std::uint32_t bits = bits_of(scaled);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
    const std::uint32_t normal = (magnitude - (120u << 23) + 0x7FFFFu + ((magnitude >> 20) & 1u)) >> 20;
    // Steps of 2^-9 below: adding 2^14 leaves their number in the last bits, ties to even.
    const std::uint32_t small = bits_of(number_of(magnitude) + 0x1p14f) - bits_of(0x1p14f);
    const std::uint32_t code = std::min(magnitude < (121u << 23) ? small : normal, 0x7Eu);
    return static_cast<std::uint8_t>(((bits >> 24) & 0x80u) | code);
  }
  static float from_byte(std::uint8_t byte) {
    const std::uint32_t sign = static_cast<std::uint32_t>(byte & 0x80u) << 24;
    const std::uint32_t code = byte & 0x7Fu;
    const float normal = number_of((code << 20) + (120u << 23));
    const float small = static_cast<float>(static_cast<int>(code)) * 0x1p-9f;
    return number_of(sign | bits_of(code < 8 ? small : normal));
  }
};

}  // namespace

std::unique_ptr<Codec> make_float8_codec() {
  return std::make_unique<ScaledCodec<E4m3>>();
}

}  // namespace kolo::train

#include "compression/scaled_codec.hpp"

namespace kolo::train {
namespace {

struct Int8 {
  static constexpr std::string_view kName = "int8";
  static constexpr float kLargest = 127;

  static std::uint8_t to_byte(float scaled) {
    // Adding this constant leaves the nearest integer in the last bits, ties to even.
    constexpr float kRounding = 0x1.8p23f;
    const std::uint32_t rounded = bits_of(scaled + kRounding) - bits_of(kRounding);
    return static_cast<std::uint8_t>(rounded);
  }
  static float from_byte(std::uint8_t byte) { return static_cast<float>(static_cast<std::int8_t>(byte)); }
};

}  // namespace

std::unique_ptr<Codec> make_int8_codec() {
  return std::make_unique<ScaledCodec<Int8>>();
}

}  // namespace kolo::train

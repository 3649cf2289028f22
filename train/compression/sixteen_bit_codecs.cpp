// float16 and bfloat16.
#include <cstdint>

#include "compression/bits.hpp"
#include "compression/codec.hpp"

namespace kolo::train {
namespace {

// Without branches, so that a compiler computes several at a time.
std::uint16_t to_float16(float number) {
  const std::uint32_t bits = bits_of(number);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  // Normal ones: the exponent's bias changes from 127 to 15.
  const std::uint32_t normal = (magnitude - (112u << 23) + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
  // Below 2^-14: adding 0.5 leaves the right bits at the end, rounded as additions are.
  const std::uint32_t small = bits_of(number_of(magnitude) + 0.5f) - bits_of(0.5f);
  const std::uint32_t finite = magnitude < (113u << 23) ? small : normal;
  // 65520 is the least number that rounds to infinity.
  const std::uint32_t limited = magnitude >= bits_of(65520.0f) ? 0x7C00u : finite;
  return static_cast<std::uint16_t>(sign | (magnitude > 0x7F800000u ? 0x7E00u : limited));
}

float from_float16(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t magnitude = half & 0x7FFFu;
  const float normal = number_of((magnitude << 13) + (112u << 23));
  const float small = static_cast<float>(static_cast<int>(magnitude)) * 0x1p-24f;
  const float unbounded = number_of((magnitude << 13) | 0x7F800000u);
  const float finite = magnitude < 0x400u ? small : normal;
  return number_of(sign | bits_of(magnitude >= 0x7C00u ? unbounded : finite));
}

template <std::uint16_t (*kTo)(float), float (*kFrom)(std::uint16_t)>
class SixteenBits final : public Codec {
 public:
  explicit SixteenBits(std::string_view name) : name_(name) {}
  std::string_view name() const override { return name_; }
  std::size_t block() const override { return 1; }
  std::size_t bytes_for(std::size_t count) const override { return 2 * count; }
  void encode(std::span<const float> numbers, std::byte* bytes) const override {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::uint16_t half = kTo(numbers[i]);
      std::memcpy(bytes + 2 * i, &half, sizeof half);
    }
  }
  void decode(const std::byte* bytes, std::span<float> numbers) const override {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      std::uint16_t half;
      std::memcpy(&half, bytes + 2 * i, sizeof half);
      numbers[i] = kFrom(half);
    }
  }

 private:
  std::string_view name_;
};

}  // namespace

std::unique_ptr<Codec> make_float16_codec() {
  return std::make_unique<SixteenBits<to_float16, from_float16>>("float16");
}
std::unique_ptr<Codec> make_bfloat16_codec() {
  return std::make_unique<SixteenBits<to_bfloat16, from_bfloat16>>("bfloat16");
}

}  // namespace kolo::train

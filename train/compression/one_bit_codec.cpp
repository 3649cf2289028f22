#include <algorithm>
#include <array>
#include <cstdint>

#include "compression/bits.hpp"
#include "compression/codec.hpp"

namespace kolo::train {
namespace {

class OneBit final : public Codec {
 public:
  static constexpr std::size_t kBlock = 64;

  std::string_view name() const override { return "one_bit"; }
  std::size_t block() const override { return kBlock; }
  std::size_t bytes_for(std::size_t count) const override {
    return (count + 7) / 8 + (count + kBlock - 1) / kBlock * sizeof(std::uint16_t);
  }
  void encode(std::span<const float> numbers, std::byte* bytes) const override {
    for (std::size_t begin = 0; begin < numbers.size(); begin += kBlock) {
      const auto block = numbers.subspan(begin, std::min(kBlock, numbers.size() - begin));
      // Infinite or NaN where any number is, and then so are all that come of it.
      store(bytes, to_bfloat16(sum_of_magnitudes(block) / static_cast<float>(block.size())));
      bytes += sizeof(std::uint16_t);
      for (std::size_t i = 0; i < block.size(); i += 8) {
        const std::size_t end = std::min<std::size_t>(8, block.size() - i);
        std::uint32_t signs = 0;
        for (std::size_t j = 0; j < end; ++j) signs |= (bits_of(block[i + j]) >> 31) << j;
        *bytes++ = static_cast<std::byte>(signs);
      }
    }
  }
  void decode(const std::byte* bytes, std::span<float> numbers) const override {
    for (std::size_t begin = 0; begin < numbers.size(); begin += kBlock) {
      const auto block = numbers.subspan(begin, std::min(kBlock, numbers.size() - begin));
      const std::uint32_t magnitude = bits_of(from_bfloat16(load<std::uint16_t>(bytes)));
      bytes += sizeof(std::uint16_t);
      for (std::size_t i = 0; i < block.size(); i += 8) {
        const std::size_t end = std::min<std::size_t>(8, block.size() - i);
        const auto signs = std::to_integer<std::uint32_t>(*bytes++);
        for (std::size_t j = 0; j < end; ++j)
          block[i + j] = number_of(magnitude ^ (((signs >> j) & 1u) << 31));
      }
    }
  }

 private:
  /// In sixteen partial sums, whose order does not depend on how many a processor adds at a time.
  static float sum_of_magnitudes(std::span<const float> numbers) {
    constexpr std::size_t kSums = 16;
    std::array<float, kSums> sums{};
    std::size_t i = 0;
    for (; i + kSums <= numbers.size(); i += kSums) {
      for (std::size_t j = 0; j < kSums; ++j) sums[j] += magnitude_of(numbers[i + j]);
    }
    for (std::size_t j = 0; i < numbers.size(); ++i, ++j) sums[j] += magnitude_of(numbers[i]);
    for (std::size_t width = kSums / 2; width > 0; width /= 2) {
      for (std::size_t j = 0; j < width; ++j) sums[j] += sums[j + width];
    }
    return sums[0];
  }
};

}  // namespace

std::unique_ptr<Codec> make_one_bit_codec() {
  return std::make_unique<OneBit>();
}

}  // namespace kolo::train

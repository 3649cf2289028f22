#include <algorithm>
#include <limits>

#include "compression/bits.hpp"
#include "compression/codec.hpp"
#include "kolo/error.hpp"

namespace kolo::train {
namespace {

/// Cuts numbers into blocks for a Format: kName, kBlock, bytes_for(count) of a block, encode() and decode()
/// of one.
template <typename Format>
class BlockCodec final : public Codec {
 public:
  std::string_view name() const override { return Format::kName; }
  std::size_t block() const override { return Format::kBlock; }
  std::size_t bytes_for(std::size_t count) const override {
    constexpr std::size_t kBlock = Format::kBlock;
    return count / kBlock * Format::bytes_for(kBlock) +
           (count % kBlock > 0 ? Format::bytes_for(count % kBlock) : 0);
  }
  void encode(std::span<const float> numbers, std::byte* bytes) const override {
    for_blocks(numbers, bytes, Format::encode);
  }
  void decode(const std::byte* bytes, std::span<float> numbers) const override {
    for_blocks(numbers, bytes, Format::decode);
  }

 private:
  template <typename T, typename Byte, typename Action>
  static void for_blocks(std::span<T> numbers, Byte* bytes, Action action) {
    constexpr std::size_t kAtOnce =
        Format::kBlock > 1 ? Format::kBlock : std::numeric_limits<std::size_t>::max();
    for (std::size_t begin = 0; begin < numbers.size(); begin += std::min(kAtOnce, numbers.size() - begin)) {
      const auto block = numbers.subspan(begin, std::min(kAtOnce, numbers.size() - begin));
      action(block, bytes);
      bytes += Format::bytes_for(block.size());
    }
  }
};

// Conversions are without branches, so that a compiler computes several at a time.

struct Float16 {
  static constexpr std::string_view kName = "float16";

  static std::uint16_t from_float(float number) {
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
  static float to_float(std::uint16_t half) {
    const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
    const std::uint32_t magnitude = half & 0x7FFFu;
    const float normal = number_of((magnitude << 13) + (112u << 23));
    const float small = static_cast<float>(static_cast<int>(magnitude)) * 0x1p-24f;
    const float unbounded = number_of((magnitude << 13) | 0x7F800000u);
    const float finite = magnitude < 0x400u ? small : normal;
    return number_of(sign | bits_of(magnitude >= 0x7C00u ? unbounded : finite));
  }
};

struct Bfloat16 {
  static constexpr std::string_view kName = "bfloat16";

  static std::uint16_t from_float(float number) {
    const std::uint32_t bits = bits_of(number);
    const std::uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    const std::uint32_t quiet = (bits >> 16) | 0x40u;  // rounding could make an infinity of a NaN
    return static_cast<std::uint16_t>((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded);
  }
  static float to_float(std::uint16_t half) { return number_of(static_cast<std::uint32_t>(half) << 16); }
};

template <typename Number>
struct SixteenBits : Number {
  static constexpr std::size_t kBlock = 1;

  static std::size_t bytes_for(std::size_t count) { return 2 * count; }
  static void encode(std::span<const float> numbers, std::byte* bytes) {
    for (std::size_t i = 0; i < numbers.size(); ++i) store(bytes + 2 * i, Number::from_float(numbers[i]));
  }
  static void decode(std::span<float> numbers, const std::byte* bytes) {
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = Number::to_float(load<std::uint16_t>(bytes + 2 * i));
  }
};

struct Int8 {
  static constexpr std::string_view kName = "int8";
  static constexpr float kLargest = 127;

  static std::uint8_t from_float(float scaled) {
    // Adding this constant leaves the nearest integer in the last bits, ties to even.
    constexpr float kRounding = 0x1.8p23f;
    return static_cast<std::uint8_t>(bits_of(scaled + kRounding) - bits_of(kRounding));
  }
  static float to_float(std::uint8_t byte) { return static_cast<float>(static_cast<std::int8_t>(byte)); }
};

/// A sign, four bits of exponent with bias 7, three bits of mantissa; 2^-6 is the least normal number.
struct E4m3 {
  static constexpr std::string_view kName = "float8";
  static constexpr float kLargest = 448;

  static std::uint8_t from_float(float scaled) {
    const std::uint32_t bits = bits_of(scaled);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
    const std::uint32_t normal = (magnitude - (120u << 23) + 0x7FFFFu + ((magnitude >> 20) & 1u)) >> 20;
    // Steps of 2^-9 below: adding 2^14 leaves their number in the last bits, ties to even.
    const std::uint32_t small = bits_of(number_of(magnitude) + 0x1p14f) - bits_of(0x1p14f);
    const std::uint32_t code = std::min(magnitude < (121u << 23) ? small : normal, 0x7Eu);
    return static_cast<std::uint8_t>(((bits >> 24) & 0x80u) | code);
  }
  static float to_float(std::uint8_t byte) {
    const std::uint32_t sign = static_cast<std::uint32_t>(byte & 0x80u) << 24;
    const std::uint32_t code = byte & 0x7Fu;
    const float normal = number_of((code << 20) + (120u << 23));
    const float small = static_cast<float>(static_cast<int>(code)) * 0x1p-9f;
    return number_of(sign | bits_of(code < 8 ? small : normal));
  }
};

/// A float32, the scale that makes the most of a byte's range, and a byte for each number.
template <typename Number>
struct Scaled : Number {
  static constexpr std::size_t kBlock = 256;

  static std::size_t bytes_for(std::size_t count) { return sizeof(float) + count; }
  static void encode(std::span<const float> block, std::byte* bytes) {
    // As integers, magnitudes compare as numbers do, and what is not finite is larger than all else.
    std::uint32_t largest = 0;
    for (const float number : block) largest = std::max(largest, bits_of(number) & 0x7FFFFFFFu);
    const bool is_finite = largest < 0x7F800000u;
    const float scale = number_of(largest) / Number::kLargest;
    // A scale may be too small to divide by: then all numbers are as good as zero.
    const float inverse = scale >= std::numeric_limits<float>::min() && is_finite ? 1 / scale : 0;
    store(bytes, is_finite ? (inverse > 0 ? scale : 0) : std::numeric_limits<float>::quiet_NaN());
    bytes += sizeof(float);
    for (std::size_t i = 0; i < block.size(); ++i)
      bytes[i] = static_cast<std::byte>(Number::from_float(is_finite ? block[i] * inverse : 0));
  }
  static void decode(std::span<float> block, const std::byte* bytes) {
    const float scale = load<float>(bytes);
    bytes += sizeof(float);
    for (std::size_t i = 0; i < block.size(); ++i)
      block[i] = Number::to_float(std::to_integer<std::uint8_t>(bytes[i])) * scale;
  }
};

/// The mean magnitude as bfloat16, and a bit for each sign.
struct OneBit {
  static constexpr std::string_view kName = "one_bit";
  static constexpr std::size_t kBlock = 64;

  static std::size_t bytes_for(std::size_t count) { return sizeof(std::uint16_t) + (count + 7) / 8; }
  static void encode(std::span<const float> block, std::byte* bytes) {
    const float total = sum_of<float>(block.size(), [&](std::size_t i) { return magnitude_of(block[i]); });
    // Infinite or NaN where any number is, and then so are all that come of it.
    store(bytes, Bfloat16::from_float(total / static_cast<float>(block.size())));
    bytes += sizeof(std::uint16_t);
    for (std::size_t i = 0; i < block.size(); i += 8) {
      const std::size_t end = std::min<std::size_t>(8, block.size() - i);
      std::uint32_t signs = 0;
      for (std::size_t j = 0; j < end; ++j) signs |= (bits_of(block[i + j]) >> 31) << j;
      *bytes++ = static_cast<std::byte>(signs);
    }
  }
  static void decode(std::span<float> block, const std::byte* bytes) {
    const std::uint32_t magnitude = bits_of(Bfloat16::to_float(load<std::uint16_t>(bytes)));
    bytes += sizeof(std::uint16_t);
    for (std::size_t i = 0; i < block.size(); i += 8) {
      const std::size_t end = std::min<std::size_t>(8, block.size() - i);
      const auto signs = std::to_integer<std::uint32_t>(*bytes++);
      for (std::size_t j = 0; j < end; ++j) block[i + j] = number_of(magnitude ^ (((signs >> j) & 1u) << 31));
    }
  }
};

}  // namespace

std::unique_ptr<Codec> make_codec(GradientFormat format) {
  switch (format) {
    case GradientFormat::float16:
      return std::make_unique<BlockCodec<SixteenBits<Float16>>>();
    case GradientFormat::bfloat16:
      return std::make_unique<BlockCodec<SixteenBits<Bfloat16>>>();
    case GradientFormat::int8:
      return std::make_unique<BlockCodec<Scaled<Int8>>>();
    case GradientFormat::float8:
      return std::make_unique<BlockCodec<Scaled<E4m3>>>();
    case GradientFormat::one_bit:
      return std::make_unique<BlockCodec<OneBit>>();
  }
  throw InvalidArgumentError("there is no such gradient format", {});
}

}  // namespace kolo::train

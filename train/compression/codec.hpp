// Codec: how float32 numbers become fewer bytes, and numbers again.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "kolo/train/hooks.hpp"

namespace kolo::train {

/// A format of independent blocks of numbers. Where a number is not finite, or too large for the format, all
/// numbers of its block (itself, where blocks are single numbers) come back as not finite. The bytes are the
/// same on all machines of one byte order. Thread-safe.
class Codec {
 public:
  virtual ~Codec() = default;

  virtual std::string_view name() const = 0;
  /// Numbers that share bytes.
  virtual std::size_t block() const = 0;
  virtual std::size_t bytes_for(std::size_t count) const = 0;
  /// Writes bytes_for(numbers.size()).
  virtual void encode(std::span<const float> numbers, std::byte* bytes) const = 0;
  virtual void decode(const std::byte* bytes, std::span<float> numbers) const = 0;
};

/// float16: IEEE 754 binary16, rounded to nearest even; infinite beyond 65504. bfloat16: the upper half of a
/// float32, rounded to nearest even. int8: blocks of 256 integers from -127 to 127 with a float32 scale,
/// which makes 127 of the largest. float8: blocks of 256 numbers of the format E4M3 with a float32 scale,
/// which makes 448 of the largest (P. Micikevicius et al., "FP8 Formats for Deep Learning", 2022, section 3:
/// no infinities). one_bit: blocks of 64 signs with one bfloat16 magnitude, the mean of the block's, which
/// has the least squared error (J. Bernstein et al., "signSGD", ICML 2018, and Seide et al. for the signs).
std::unique_ptr<Codec> make_codec(GradientFormat format);

}  // namespace kolo::train

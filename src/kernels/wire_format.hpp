// WireFormat: converts float32 arrays to bytes for the wire and back.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.hpp"
#include "kolo/wire.hpp"

namespace kolo::kernels {

/// The layout of one wire format, and its kernels for this CPU. An array is cut into blocks of `block`
/// numbers; the last one may be shorter. Each block is encoded separately: `head` bytes, then `per_number`
/// bytes for each number. A value; look it up once per call.
///
/// Decoded data that is encoded again, in the same blocks, gives the same bytes. So a rank may pass on what
/// it has decoded, and every rank ends with the same bits.
struct WireFormat {
  std::uint64_t block = 1;
  std::uint64_t head = 0;
  std::uint64_t per_number = sizeof(float);
  CastFn encode = nullptr;  ///< (bytes, floats, count)
  CastFn decode = nullptr;  ///< (floats, bytes, count)

  std::uint64_t block_bytes() const { return head + block * per_number; }
  /// Bytes of `count` encoded numbers.
  std::uint64_t bytes(std::uint64_t count) const {
    return (count + block - 1) / block * head + count * per_number;
  }
  /// The numbers in so many bytes, which end with a block.
  std::uint64_t numbers(std::uint64_t bytes) const {
    const std::uint64_t blocks = (bytes + block_bytes() - 1) / block_bytes();
    return (bytes - blocks * head) / per_number;
  }
};

/// `native` copies without conversion.
WireFormat wire_format(Wire wire);

namespace reference {
/// Plain loops with the same meaning; the int8 kernels are tested against them.
void encode_int8(void* bytes, const float* numbers, std::size_t count);
void decode_int8(float* numbers, const void* bytes, std::size_t count);
}  // namespace reference

}  // namespace kolo::kernels

// Wire formats: how float32 numbers travel between ranks.
#pragma once

#include <cstdint>
#include <string_view>

namespace kolo {

/// A format other than `native` sends fewer bytes and rounds: each contribution and each partial sum once, on
/// its way to the rank that adds it, and the result once. Additions are always in float32. All ranks end with
/// the same bits. docs/training/compression.md tells what each costs in accuracy.
enum class Wire : std::uint8_t {
  native,    ///< the numbers as they are
  bfloat16,  ///< half the bytes; float32's range, 8 significant bits
  float16,   ///< half the bytes; 11 significant bits; beyond 65504 infinite
  /// A quarter of the bytes: blocks of 256 numbers share a scale. A number is off by at most 1/254 of the
  /// largest of its block. A block with an infinity or a NaN arrives as NaN.
  int8,
};

/// Number of formats.
inline constexpr int kWireCount = 4;

/// The name as in the enumeration.
std::string_view name_of(Wire wire) noexcept;
/// The inverse of name_of(). Returns false when there is no such format.
bool parse_wire(std::string_view name, Wire& out) noexcept;

}  // namespace kolo

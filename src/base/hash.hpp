// FNV-1a, for telling different things apart; not against an adversary.
#pragma once

#include <cstdint>
#include <string_view>

namespace kolo {

/// Where a hash begins. Source: http://www.isthe.com/chongo/tech/comp/fnv/
inline constexpr std::uint64_t kHashSeed = 0xcbf29ce484222325ull;

/// The hash of what `seed` stands for, followed by `bytes`.
constexpr std::uint64_t hash(std::uint64_t seed, std::string_view bytes) {
  for (const char c : bytes) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return seed;
}

/// Likewise followed by the eight bytes of `word`, the lowest first.
constexpr std::uint64_t hash(std::uint64_t seed, std::uint64_t word) {
  for (int i = 0; i < 8; ++i, word >>= 8) seed = (seed ^ (word & 0xff)) * 0x100000001b3ull;
  return seed;
}

}  // namespace kolo

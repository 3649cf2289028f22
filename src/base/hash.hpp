// FNV-1a, to distinguish different data; not secure against an adversary.
#pragma once

#include <cstdint>
#include <string_view>

namespace kolo {

/// The initial hash. Source: http://www.isthe.com/chongo/tech/comp/fnv/
inline constexpr std::uint64_t kHashSeed = 0xcbf29ce484222325ull;

/// Continues the hash `seed` with `bytes`.
constexpr std::uint64_t hash(std::uint64_t seed, std::string_view bytes) {
  for (const char c : bytes) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return seed;
}

/// Continues the hash `seed` with the eight bytes of `word`, lowest first.
constexpr std::uint64_t hash(std::uint64_t seed, std::uint64_t word) {
  for (int i = 0; i < 8; ++i, word >>= 8) seed = (seed ^ (word & 0xff)) * 0x100000001b3ull;
  return seed;
}

}  // namespace kolo

// shuffle(): orders that depend on a seed and an epoch alone.
#pragma once

#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace kolo::train {

/// Fisher-Yates, the same on every machine and with every compiler. Not std::shuffle, whose order differs
/// between standard libraries: ranks may run different ones.
inline void shuffle(std::vector<std::int64_t>& values, std::uint64_t seed, std::uint64_t epoch) {
  // seed_seq and the engines are fixed by the standard; distributions are not.
  std::seed_seq seeds{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                      static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(epoch >> 32)};
  std::mt19937_64 random(seeds);
  // The bias of the modulo is below size / 2^64.
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random() % i]);
}

/// 0 to count - 1, shuffled.
inline std::vector<std::int64_t> shuffled(std::int64_t count, std::uint64_t seed, std::uint64_t epoch) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), std::int64_t{0});
  shuffle(values, seed, epoch);
  return values;
}

}  // namespace kolo::train

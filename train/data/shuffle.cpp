#include "data/shuffle.hpp"

#include <numeric>
#include <random>
#include <utility>

namespace kolo::train {

// Not std::shuffle: its order differs between standard libraries, and ranks may run different ones.
void shuffle(std::vector<std::int64_t>& values, std::uint64_t seed, std::uint64_t epoch) {
  // seed_seq and the engines are fixed by the standard; distributions are not.
  std::seed_seq seeds{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                      static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(epoch >> 32)};
  std::mt19937_64 random(seeds);
  for (std::size_t i = values.size(); i > 1; --i) {
    // The bias of the modulo is below size / 2^64.
    std::swap(values[i - 1], values[random() % i]);
  }
}

std::vector<std::int64_t> shuffled(std::int64_t count, std::uint64_t seed, std::uint64_t epoch) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), std::int64_t{0});
  shuffle(values, seed, epoch);
  return values;
}

}  // namespace kolo::train

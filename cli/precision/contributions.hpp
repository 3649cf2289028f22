// Contributions: the numbers whose sum over the ranks is measured for its rounding error.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kolo/dtype.hpp"

namespace kolo::precision {

enum class Data : std::uint8_t {
  normal,      ///< standard normal, as gradients are: of both signs
  positive,    ///< the magnitudes of normal numbers
  cancelling,  ///< normal, but two ranks contribute kLarge and -kLarge
  one_large,   ///< normal, but one rank contributes kLarge
};

/// Order of the contributions to each element, by rank.
enum class Order : std::uint8_t {
  drawn,       ///< as drawn: the large contributions are at random ranks, drawn anew for each element
  ascending,   ///< by magnitude, the smallest at rank 0
  descending,  ///< by magnitude, the largest at rank 0
};

/// Within the range of float16, also after adding normal numbers of many ranks.
inline constexpr float kLarge = 16384;

inline constexpr std::string_view kDataNames[] = {"normal", "positive", "cancelling", "one_large"};
inline constexpr std::string_view kOrderNames[] = {"drawn", "ascending", "descending"};

/// What is summed. A value.
struct Contributions {
  Data data = Data::normal;
  Order order = Order::drawn;
  DType element = DType::float32;  ///< float32 or shorter: what the numbers are rounded to
  int ranks = 2;                   ///< at most kMostRanks
  std::uint64_t count = 0;         ///< elements of each rank

  /// The numbers of all ranks, one array a rank. Equal seeds give equal numbers.
  std::vector<std::vector<float>> draw(std::uint64_t seed) const;
};

/// Number of random streams of one seed.
inline constexpr int kMostRanks = 1024;

}  // namespace kolo::precision

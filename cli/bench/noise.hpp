// Noise: the data of a benchmark of all_reduce in a format that rounds: numbers as gradients are, what their
// exact sum is, and how far from it a result may be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bench/case.hpp"
#include "kolo/wire.hpp"

namespace kolo::bench {

/// How far results were from exact ones. A value; they add up.
struct Deviation {
  double largest = 0;        ///< of one element
  double squares = 0;        ///< of all elements' differences, added up
  double exact_squares = 0;  ///< of all exact results, added up
  double count = 0;          ///< elements

  Deviation& operator+=(const Deviation& other);
  /// The root of the mean square, as a share of that of the exact results; 0 where there is nothing.
  double rms() const;
  /// The largest, as a share of the same.
  double most() const;
};

/// Of all `bytes`, and of those before them, whose hash is `before`: ranks whose results differ have, but for
/// luck, different ones.
std::uint64_t hash_of(std::uint64_t before, std::span<const std::byte> bytes);

/// A number of the standard normal distribution: for the same arguments the same one, for others another one.
/// Below 1031 ranks.
float normal_number(int rank, std::uint64_t iteration, std::uint64_t index);

/// Element `index` of a rank in an iteration is normally distributed, with the index taken modulo a prime
/// that no block of a format divides, so that few exact sums are enough. Not thread-safe.
class Noise {
 public:
  static constexpr std::uint64_t kPeriod = 4093;

  Noise(Wire wire, ReduceOp op, int ranks);

  void fill(float* out, std::uint64_t count, int rank, std::uint64_t iteration);
  /// How many of a result's elements are farther from exact than rounding may bring them: each of N roundings
  /// is of a sum of k contributions, k = 1 to N, which is below 6 sqrt(k). Adds to `deviation`.
  std::uint64_t count_wrong(const float* got, std::uint64_t count, std::uint64_t iteration,
                            Deviation& deviation);

 private:
  int ranks_;
  double divisor_;
  double tolerance_;
  std::vector<float> own_;
  std::vector<double> exact_;
};

}  // namespace kolo::bench

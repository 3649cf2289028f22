// Noise: Gaussian data for benchmarks with a wire format, its exact sums, and bounds on rounding errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bench/case.hpp"
#include "kolo/wire.hpp"

namespace kolo::bench {

/// Rounding errors of results. A value; several can be added.
struct Deviation {
  double largest = 0;        ///< largest difference of one element
  double squares = 0;        ///< sum of the squares of all differences
  double exact_squares = 0;  ///< sum of the squares of all exact results
  double count = 0;          ///< elements

  Deviation& operator+=(const Deviation& other);
  /// The root mean square of the differences, divided by that of the exact results; 0 without elements.
  double rms() const;
  /// The largest difference, divided by the root mean square of the exact results.
  double most() const;
};

/// Hash of `bytes` and of the bytes before them, whose hash is `before`.
std::uint64_t hash_of(std::uint64_t before, std::span<const std::byte> bytes);

/// A standard normal number, determined by the arguments. For less than 1031 ranks.
float normal_number(int rank, std::uint64_t iteration, std::uint64_t index);

/// Element `index` of a rank in an iteration is normally distributed. The index is taken modulo a prime, so
/// few exact sums are needed; no block of a wire format divides the prime. Not thread-safe.
class Noise {
 public:
  static constexpr std::uint64_t kPeriod = 4093;

  Noise(Wire wire, ReduceOp op, int ranks);

  void fill(float* out, std::uint64_t count, int rank, std::uint64_t iteration);
  /// Number of a result's elements whose error exceeds the bound: N roundings, the k-th of a sum of k
  /// contributions (k = 1 to N), which is below 6 sqrt(k). Adds the errors to `deviation`.
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

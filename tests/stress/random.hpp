// Random: numbers that follow from a seed alone, on every rank the same.
#pragma once

#include <cmath>
#include <cstdint>

namespace kolo::stress {

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t limit) { return next() % limit; }
  bool chance(unsigned percent) { return below(100) < percent; }
  /// From 0 to 1.
  double fraction() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// 1 to `most`, each order of magnitude as likely as the others.
  std::uint64_t size(std::uint64_t most) {
    return static_cast<std::uint64_t>(std::exp(fraction() * std::log(static_cast<double>(most))));
  }

 private:
  std::uint64_t state_;
};

}  // namespace kolo::stress

#include "bench/noise.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

namespace kolo::bench {
namespace {

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/// The largest rounding error of a format, relative to the largest number of its block.
double unit_of(Wire wire) {
  switch (wire) {
    case Wire::bfloat16:
      return 0x1p-8;
    case Wire::float16:
      return 0x1p-11;
    case Wire::int8:
      return 1.0 / 253;
    case Wire::native:
      break;
  }
  return 0x1p-23;
}

}  // namespace

std::uint64_t hash_of(std::uint64_t before, std::span<const std::byte> bytes) {
  std::uint64_t value = before;
  while (!bytes.empty()) {
    std::uint64_t word = 0;
    const std::size_t size = std::min(bytes.size(), sizeof word);
    std::memcpy(&word, bytes.data(), size);
    value = (value ^ word) * 0x9E3779B97F4A7C15u;
    value ^= value >> 32;
    bytes = bytes.subspan(size);
  }
  return value;
}

Deviation& Deviation::operator+=(const Deviation& other) {
  largest = std::max(largest, other.largest);
  squares += other.squares;
  exact_squares += other.exact_squares;
  count += other.count;
  return *this;
}

double Deviation::rms() const {
  return exact_squares > 0 ? std::sqrt(squares / exact_squares) : 0;
}

double Deviation::most() const {
  return exact_squares > 0 ? largest / std::sqrt(exact_squares / count) : 0;
}

// Box-Muller transform: two uniform numbers give a normal one.
float normal_number(int rank, std::uint64_t iteration, std::uint64_t index) {
  const auto who = iteration * 1031 + static_cast<std::uint64_t>(rank) + 1;
  const std::uint64_t bits = mixed(mixed(who * 0x9E3779B97F4A7C15u) + index);
  const double radius = (static_cast<double>(bits >> 32) + 1) * 0x1p-32;
  const double angle = static_cast<double>(bits & 0xFFFFFFFF) * 0x1p-32;
  return static_cast<float>(std::sqrt(-2 * std::log(radius)) * std::cos(2 * std::numbers::pi * angle));
}

Noise::Noise(Wire wire, ReduceOp op, int ranks)
    : ranks_(ranks), divisor_(op == ReduceOp::average ? ranks : 1) {
  double sums = 0;
  for (int k = 1; k <= ranks; ++k) sums += 6 * std::sqrt(k);
  tolerance_ = unit_of(wire) * sums / divisor_;
}

void Noise::fill(float* out, std::uint64_t count, int rank, std::uint64_t iteration) {
  own_.resize(std::min(count, kPeriod));
  for (std::uint64_t i = 0; i < own_.size(); ++i) own_[i] = normal_number(rank, iteration, i);
  for (std::uint64_t done = 0; done < count; done += own_.size()) {
    std::memcpy(out + done, own_.data(), std::min(kPeriod, count - done) * sizeof(float));
  }
}

std::uint64_t Noise::count_wrong(const float* got, std::uint64_t count, std::uint64_t iteration,
                                 Deviation& deviation) {
  exact_.assign(std::min(count, kPeriod), 0);
  for (int rank = 0; rank < ranks_; ++rank) {
    for (std::uint64_t i = 0; i < exact_.size(); ++i) {
      exact_[i] += static_cast<double>(normal_number(rank, iteration, i)) / divisor_;
    }
  }
  std::uint64_t wrong = 0;
  Deviation all;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double exact = exact_[i % kPeriod];
    const double off = std::abs(static_cast<double>(got[i]) - exact);
    if (!(off <= tolerance_)) ++wrong;
    all.largest = std::max(all.largest, off);
    all.squares += off * off;
    all.exact_squares += exact * exact;
  }
  all.count = static_cast<double>(count);
  deviation += all;
  return wrong;
}

}  // namespace kolo::bench

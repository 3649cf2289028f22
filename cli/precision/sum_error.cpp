#include "precision/sum_error.hpp"

#include <algorithm>
#include <cmath>

#include "evaluation/exact_sum.hpp"

namespace kolo::precision {

SumError& SumError::operator+=(const SumError& other) {
  units += other.units;
  unit_squares += other.unit_squares;
  largest_units = std::max(largest_units, other.largest_units);
  relative += other.relative;
  infinite += other.infinite;
  return *this;
}

double SumError::mean_units() const {
  return relative.count > 0 ? units / relative.count : 0;
}

double SumError::rms_units() const {
  return relative.count > 0 ? std::sqrt(unit_squares / relative.count) : 0;
}

SumError error_of(std::span<const float> sums, const std::vector<std::vector<float>>& contributions,
                  double unit_roundoff) {
  SumError result;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (!std::isfinite(sums[i])) {
      ++result.infinite;
      continue;
    }
    evaluation::ExactSum sum, magnitudes;
    for (const std::vector<float>& of_rank : contributions) {
      sum.add(of_rank[i]);
      magnitudes.add(std::abs(of_rank[i]));
    }
    const double exact = sum.value();
    sum.add(-sums[i]);  // the difference itself is rounded only once
    const double off = std::abs(sum.value());
    const double scale = unit_roundoff * magnitudes.value();
    const double in_units = scale > 0 ? off / scale : 0;
    result.units += in_units;
    result.unit_squares += in_units * in_units;
    result.largest_units = std::max(result.largest_units, in_units);
    result.relative += {.largest = off, .squares = off * off, .exact_squares = exact * exact, .count = 1};
  }
  return result;
}

}  // namespace kolo::precision

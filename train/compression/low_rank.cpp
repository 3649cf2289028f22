#include "compression/low_rank.hpp"

#include <algorithm>
#include <cmath>

#include "compression/bits.hpp"

namespace kolo::train {
namespace {

constexpr double kDependent = 1e-6;  // of a vector's length, about float32's rounding

template <typename Sum>
Sum dot(std::span<const float> one, std::span<const float> other) {
  return sum_of<Sum>(one.size(),
                     [&](std::size_t i) { return static_cast<Sum>(one[i]) * static_cast<Sum>(other[i]); });
}

void add_scaled(std::span<float> to, float factor, std::span<const float> what) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += factor * what[i];
}

/// to += the sum over s of factor(s) source(s), in their order: four at a time, as else most of the work is
/// to load and store `to`. The bits are those of one at a time.
template <typename Factor, typename Source>
void add_all_scaled(std::span<float> to, std::size_t count, Factor factor, Source source) {
  std::size_t s = 0;
  for (; s + 4 <= count; s += 4) {
    const float f0 = factor(s), f1 = factor(s + 1), f2 = factor(s + 2), f3 = factor(s + 3);
    const float *s0 = source(s), *s1 = source(s + 1), *s2 = source(s + 2), *s3 = source(s + 3);
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = to[i] + f0 * s0[i] + f1 * s1[i] + f2 * s2[i] + f3 * s3[i];
  }
  if (s + 2 <= count) {
    const float f0 = factor(s), f1 = factor(s + 1);
    const float *s0 = source(s), *s1 = source(s + 1);
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = to[i] + f0 * s0[i] + f1 * s1[i];
    s += 2;
  }
  if (s < count) add_scaled(to, factor(s), {source(s), to.size()});
}

double length_of(std::span<const float> vector) {
  return std::sqrt(dot<double>(vector, vector));
}

}  // namespace

void form_and_multiply(std::span<const float> gradient, float scale, std::span<const float> kept,
                       const Vectors& right, std::span<float> matrix, const Vectors& left) {
  const std::size_t columns = right.length;
  for (std::size_t row = 0; row < left.length; ++row) {
    const auto from = gradient.subspan(row * columns, columns);
    const auto to = matrix.subspan(row * columns, columns);
    if (kept.empty()) {
      for (std::size_t i = 0; i < columns; ++i) to[i] = scale * from[i];
    } else {
      const auto rest = kept.subspan(row * columns, columns);
      for (std::size_t i = 0; i < columns; ++i) to[i] = scale * from[i] + rest[i];
    }
    for (std::size_t c = 0; c < left.count(); ++c) left[c][row] = dot<float>(to, right[c]);
  }
}

void multiply_transposed(std::span<const float> matrix, const Vectors& left, const Vectors& right) {
  constexpr std::size_t kRows = 4;  // that stay in a cache from one vector to the next
  std::ranges::fill(right.numbers, 0.0f);
  for (std::size_t row = 0; row < left.length; row += kRows) {
    for (std::size_t c = 0; c < right.count(); ++c) {
      add_all_scaled(
          right[c], std::min(kRows, left.length - row), [&](std::size_t r) { return left[c][row + r]; },
          [&](std::size_t r) { return &matrix[(row + r) * right.length]; });
    }
  }
}

void expand(const Vectors& left, const Vectors& right, float scale, std::span<float> matrix) {
  for (std::size_t row = 0; row < left.length; ++row) {
    const auto numbers = matrix.subspan(row * right.length, right.length);
    std::ranges::fill(numbers, 0.0f);
    add_all_scaled(
        numbers, left.count(), [&](std::size_t c) { return left[c][row]; },
        [&](std::size_t c) { return right[c].data(); });
    if (scale == 1) continue;
    for (float& number : numbers) number *= scale;
  }
}

void subtract_product(const Vectors& left, const Vectors& right, std::span<float> matrix) {
  for (std::size_t row = 0; row < left.length; ++row) {
    add_all_scaled(
        matrix.subspan(row * right.length, right.length), left.count(),
        [&](std::size_t c) { return -left[c][row]; }, [&](std::size_t c) { return right[c].data(); });
  }
}

void orthonormalize(const Vectors& vectors) {
  for (std::size_t c = 0; c < vectors.count(); ++c) {
    const auto vector = vectors[c];
    for (int pass = 0; pass < 2; ++pass) {
      // First to length 1, then what is left of it without the vectors before it.
      double length = length_of(vector);
      for (float& number : vector)
        number = length == 0 ? 0 : static_cast<float>(static_cast<double>(number) / length);
      for (std::size_t before = 0; before < c; ++before)
        add_scaled(vector, static_cast<float>(-dot<double>(vector, vectors[before])), vectors[before]);
      length = length_of(vector);
      // Also where rounding is all that is left, of which a direction would be made up.
      if (length <= kDependent) std::ranges::fill(vector, 0.0f);
    }
    const double length = length_of(vector);
    for (float& number : vector)
      number = length == 0 ? 0 : static_cast<float>(static_cast<double>(number) / length);
  }
}

}  // namespace kolo::train

#include "compression/low_rank.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace kolo::train {
namespace {

float dot(std::span<const float> one, std::span<const float> other) {
  constexpr std::size_t kSums = 16;
  std::array<float, kSums> sums{};
  std::size_t i = 0;
  for (; i + kSums <= one.size(); i += kSums) {
    for (std::size_t j = 0; j < kSums; ++j) sums[j] += one[i + j] * other[i + j];
  }
  for (std::size_t j = 0; i < one.size(); ++i, ++j) sums[j] += one[i] * other[i];
  for (std::size_t width = kSums / 2; width > 0; width /= 2) {
    for (std::size_t j = 0; j < width; ++j) sums[j] += sums[j + width];
  }
  return sums[0];
}

void add_scaled(std::span<float> to, float factor, std::span<const float> what) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += factor * what[i];
}

}  // namespace

void multiply(std::span<const float> matrix, const Vectors& right, const Vectors& left) {
  for (std::size_t row = 0; row < left.length; ++row) {
    const auto numbers = matrix.subspan(row * right.length, right.length);
    for (std::size_t c = 0; c < left.count(); ++c) left[c][row] = dot(numbers, right[c]);
  }
}

void multiply_transposed(std::span<const float> matrix, const Vectors& left, const Vectors& right) {
  std::ranges::fill(right.numbers, 0.0f);
  for (std::size_t row = 0; row < left.length; ++row) {
    const auto numbers = matrix.subspan(row * right.length, right.length);
    for (std::size_t c = 0; c < right.count(); ++c) add_scaled(right[c], left[c][row], numbers);
  }
}

void expand(const Vectors& left, const Vectors& right, std::span<float> matrix) {
  std::ranges::fill(matrix, 0.0f);
  for (std::size_t row = 0; row < left.length; ++row) {
    const auto numbers = matrix.subspan(row * right.length, right.length);
    for (std::size_t c = 0; c < left.count(); ++c) add_scaled(numbers, left[c][row], right[c]);
  }
}

void orthonormalize(const Vectors& vectors) {
  for (std::size_t c = 0; c < vectors.count(); ++c) {
    const auto vector = vectors[c];
    const float length = std::sqrt(dot(vector, vector));
    const float factor = length == 0 ? 0 : 1 / length;
    for (float& number : vector) number *= factor;
    for (std::size_t d = c + 1; d < vectors.count(); ++d)
      add_scaled(vectors[d], -dot(vector, vectors[d]), vector);
  }
}

}  // namespace kolo::train

// Thin products, against plain loops.
#include "compression/low_rank.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "train/compression/replicas.hpp"

namespace kolo::train {
namespace {

std::vector<float> numbers(std::size_t count, std::size_t seed) {
  std::vector<float> result(count);
  for (std::size_t i = 0; i < count; ++i) result[i] = test::gradient(0, 0, seed, i);
  return result;
}

TEST(LowRank, ProductsAreThoseOfPlainLoops) {
  constexpr std::size_t kRows = 37, kColumns = 53, kRank = 3;
  const auto matrix = numbers(kRows * kColumns, 1);
  auto left = numbers(kRows * kRank, 2), right = numbers(kColumns * kRank, 3);
  std::vector<float> product(kRows * kRank), transposed(kColumns * kRank), expanded(kRows * kColumns);
  multiply(matrix, {right, kColumns}, {product, kRows});
  multiply_transposed(matrix, {left, kRows}, {transposed, kColumns});
  expand({left, kRows}, {right, kColumns}, expanded);
  for (std::size_t c = 0; c < kRank; ++c) {
    for (std::size_t i = 0; i < kRows; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < kColumns; ++j)
        sum += static_cast<double>(matrix[i * kColumns + j]) * static_cast<double>(right[c * kColumns + j]);
      EXPECT_NEAR(product[c * kRows + i], sum, 1e-5);
    }
    for (std::size_t j = 0; j < kColumns; ++j) {
      double sum = 0;
      for (std::size_t i = 0; i < kRows; ++i)
        sum += static_cast<double>(matrix[i * kColumns + j]) * static_cast<double>(left[c * kRows + i]);
      EXPECT_NEAR(transposed[c * kColumns + j], sum, 1e-5);
    }
  }
  for (std::size_t i = 0; i < kRows; ++i) {
    for (std::size_t j = 0; j < kColumns; ++j) {
      double sum = 0;
      for (std::size_t c = 0; c < kRank; ++c)
        sum += static_cast<double>(left[c * kRows + i]) * static_cast<double>(right[c * kColumns + j]);
      EXPECT_NEAR(expanded[i * kColumns + j], sum, 1e-5);
    }
  }
}

TEST(LowRank, VectorsBecomeOrthonormalAndZerosStay) {
  constexpr std::size_t kLength = 101;
  auto vectors = numbers(kLength * 4, 5);
  std::fill(vectors.begin() + 2 * kLength, vectors.begin() + 3 * kLength, 0.0f);
  const Vectors all{vectors, kLength};
  orthonormalize(all);
  for (std::size_t a = 0; a < 4; ++a) {
    for (std::size_t b = 0; b < 4; ++b) {
      double product = 0;
      for (std::size_t i = 0; i < kLength; ++i)
        product += static_cast<double>(all[a][i]) * static_cast<double>(all[b][i]);
      EXPECT_NEAR(product, a == b && a != 2 ? 1 : 0, 1e-5) << a << ' ' << b;
    }
  }
}

}  // namespace
}  // namespace kolo::train

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
  constexpr std::size_t kRows = 39, kColumns = 53, kRank = 7;  // 4 at a time, 2 and 1
  std::vector<float> matrix(kRows * kColumns);
  auto left = numbers(kRows * kRank, 2), right = numbers(kColumns * kRank, 3);
  std::vector<float> product(kRows * kRank), transposed(kColumns * kRank), expanded(kRows * kColumns);
  const auto gradient = numbers(kRows * kColumns, 1), kept = numbers(kRows * kColumns, 4);
  form_and_multiply(gradient, 0.5f, kept, {right, kColumns}, matrix, {product, kRows});
  for (std::size_t i = 0; i < matrix.size(); ++i) EXPECT_EQ(matrix[i], 0.5f * gradient[i] + kept[i]);
  multiply_transposed(matrix, {left, kRows}, {transposed, kColumns});
  expand({left, kRows}, {right, kColumns}, 4, expanded);
  auto rest = matrix;
  subtract_product({left, kRows}, {right, kColumns}, rest);
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
      EXPECT_NEAR(expanded[i * kColumns + j], 4 * sum, 1e-5);
      EXPECT_NEAR(rest[i * kColumns + j], static_cast<double>(matrix[i * kColumns + j]) - sum, 1e-5);
    }
  }
}

TEST(LowRank, VectorsBecomeOrthonormalAndZerosStay) {
  constexpr std::size_t kLength = 101;
  auto vectors = numbers(kLength * 4, 5);
  std::fill(vectors.begin() + 2 * kLength, vectors.begin() + 3 * kLength, 0.0f);
  const Vectors all{vectors, kLength};
  for (std::size_t i = 0; i < kLength; ++i) all[3][i] *= 1e-30f;  // its square is none of float32's numbers
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

TEST(LowRank, VectorsThatDependOnOthersBecomeZeroAndNoDirectionIsMadeUpOfRounding) {
  constexpr std::size_t kLength = 1000;
  auto vectors = numbers(kLength * 3, 6);
  const Vectors all{vectors, kLength};
  for (std::size_t i = 0; i < kLength; ++i) {
    all[1][i] = 0.3f * all[0][i];
    all[2][i] = all[0][i] + 1e-4f * all[2][i];  // nearly
  }
  orthonormalize(all);
  double product = 0, length = 0;
  for (std::size_t i = 0; i < kLength; ++i) {
    EXPECT_EQ(all[1][i], 0);
    product += static_cast<double>(all[0][i]) * static_cast<double>(all[2][i]);
    length += std::pow(static_cast<double>(all[2][i]), 2);
  }
  EXPECT_NEAR(product, 0, 1e-6);
  EXPECT_NEAR(length, 1, 1e-6);
}

}  // namespace
}  // namespace kolo::train

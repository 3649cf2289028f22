// Adasum: the formula on whole vectors, for any number of ranks, and the bytes of a ring.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "support/require.hpp"
#include "train/compression/replicas.hpp"

namespace kolo::test {
namespace {

using Vector = std::vector<double>;

double dot(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

Vector combined(const Vector& a, const Vector& b) {
  Vector sum;
  const double of_a = dot(a, a) > 0 ? 1 - dot(a, b) / (2 * dot(a, a)) : 1;
  const double of_b = dot(b, b) > 0 ? 1 - dot(a, b) / (2 * dot(b, b)) : 1;
  for (std::size_t i = 0; i < a.size(); ++i) sum.push_back(of_a * a[i] + of_b * b[i]);
  return sum;
}

Vector combined_in_pairs(std::vector<Vector> all) {
  while (all.size() > 1) {
    std::vector<Vector> sums;
    for (std::size_t i = 0; i + 1 < all.size(); i += 2) sums.push_back(combined(all[i], all[i + 1]));
    if (all.size() % 2 == 1) sums.push_back(all.back());
    all = std::move(sums);
  }
  return all[0];
}

TEST(Adasum, CombinesEachParameterByItself) {
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    const auto outputs = run({.hook = "adasum", .ranks = ranks, .steps = 1});
    for (std::size_t p = 0; p < parameters().size(); ++p) {
      std::vector<Vector> given(static_cast<std::size_t>(ranks));
      for (int rank = 0; rank < ranks; ++rank) {
        for (std::size_t i = 0; i < parameters()[p].count; ++i)
          given[static_cast<std::size_t>(rank)].push_back(static_cast<double>(gradient(rank, 0, p, i)));
      }
      const Vector expected = combined_in_pairs(given);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(static_cast<double>(outputs[0].averages[0][p][i]), expected[i], 1e-5)
            << ranks << " ranks, parameter " << p << ", element " << i;
      }
    }
  }
}

/// The same vector of 4 elements on all ranks after averaging what `mine` gives each.
std::vector<float> adasum_of(int ranks, const std::function<std::vector<float>(int rank)>& mine) {
  std::vector<float> result;
  expect_ranks({.size = ranks}, [&](Communicator& communicator) {
    std::vector<float> gradients = mine(communicator.rank());
    const std::vector<GradientPart> parts = {{"x", {4}, 0, 4}};
    GradientBucket bucket;
    bucket.gradients = gradients;
    bucket.parts = parts;
    make_gradient_hook("adasum")->average(bucket, communicator);
    if (communicator.rank() == 0) result = gradients;
  });
  return result;
}

TEST(Adasum, AveragesWhatIsParallelAndAddsWhatIsNot) {
  EXPECT_EQ(adasum_of(4,
                      [](int) {
                        return std::vector<float>{1, 2, 3, 4};
                      }),
            (std::vector<float>{1, 2, 3, 4}));
  const auto axis = [](int rank) {
    std::vector<float> vector(4);
    vector[static_cast<std::size_t>(rank)] = 1;
    return vector;
  };
  EXPECT_EQ(adasum_of(4, axis), (std::vector<float>{1, 1, 1, 1}));
  EXPECT_EQ(adasum_of(3, [](int) { return std::vector<float>(4); }), std::vector<float>(4)) << "zeros";
}

TEST(Adasum, SendsTheBytesOfARing) {
  constexpr std::size_t kCount = 40'000;
  for (const int ranks : {3, 4}) {
    expect_ranks({.size = ranks, .transport = "tcp"}, [&](Communicator& communicator) {
      std::vector<float> gradients(kCount, 1.0f);
      const std::vector<GradientPart> parts = {{"x", {kCount}, 0, kCount}};
      GradientBucket bucket;
      bucket.gradients = gradients;
      bucket.parts = parts;
      const std::uint64_t before = communicator.counters().bytes_sent;
      make_gradient_hook("adasum")->average(bucket, communicator);
      const auto sent = static_cast<double>(communicator.counters().bytes_sent - before);
      const double ring = 2.0 * (ranks - 1) / ranks * kCount * sizeof(float);
      require(sent < 1.01 * ring, std::to_string(sent) + " bytes, a ring's " + std::to_string(ring));
    });
  }
}

}  // namespace
}  // namespace kolo::test

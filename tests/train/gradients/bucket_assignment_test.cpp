// Which gradients travel together.
#include "gradients/bucket_borders.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace kolo::train {
namespace {

using Buckets = std::vector<std::vector<std::size_t>>;

TEST(BucketAssignment, ClosesABucketOnceItIsFull) {
  const std::vector<ReadyGradient> sizes(6, {40, DType::float32});
  const std::vector<std::size_t> order{5, 4, 3, 2, 1, 0};
  EXPECT_EQ(assign_buckets(sizes, order, 40, 100), (Buckets{{5}, {4, 3, 2}, {1, 0}}));
  EXPECT_EQ(assign_buckets(sizes, order, 1000, 1000), (Buckets{{5, 4, 3, 2, 1, 0}}));
  EXPECT_EQ(assign_buckets(sizes, order, 0, 0), (Buckets{{5}, {4}, {3}, {2}, {1}, {0}}));
}

TEST(BucketAssignment, KeepsTypesApartAndSortsByCompletion) {
  const std::vector<ReadyGradient> sizes{
      {10, DType::float32}, {10, DType::float64}, {10, DType::float32}, {10, DType::float64}};
  const std::vector<std::size_t> order{0, 1, 2, 3};
  // The float32 bucket opens first and is complete first.
  EXPECT_EQ(assign_buckets(sizes, order, 100, 100), (Buckets{{0, 2}, {1, 3}}));
  // The second float64 parameter comes after both float32 ones.
  EXPECT_EQ(assign_buckets(sizes, std::vector<std::size_t>{1, 0, 2, 3}, 100, 100), (Buckets{{0, 2}, {1, 3}}));
  EXPECT_EQ(assign_buckets(sizes, order, 10, 100), (Buckets{{0}, {1}, {2}, {3}}));
}

TEST(BucketAssignment, PlacesEveryParameterOnceWithinTheLimits) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<ReadyGradient> sizes(random() % 40);
    for (ReadyGradient& size : sizes) {
      size = {random() % 500, random() % 3 == 0 ? DType::bfloat16 : DType::float32};
    }
    std::vector<std::size_t> order(sizes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::shuffle(order, random);
    std::vector<std::size_t> placed;
    for (const auto& bucket : assign_buckets(sizes, order, 100, 700)) {
      ASSERT_FALSE(bucket.empty());
      std::uint64_t before_last = 0;
      for (std::size_t i = 0; i < bucket.size(); ++i) {
        EXPECT_EQ(sizes[bucket[i]].dtype, sizes[bucket[0]].dtype);
        if (i + 1 < bucket.size()) before_last += sizes[bucket[i]].bytes;
        placed.push_back(bucket[i]);
      }
      EXPECT_LT(before_last, 700u) << "a full bucket takes no more";
    }
    std::ranges::sort(placed);
    std::ranges::sort(order);
    EXPECT_EQ(placed, order);
  }
}

}  // namespace
}  // namespace kolo::train

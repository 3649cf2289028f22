// The order of slices: what is needed soonest goes first, as soon as it is ready.
#include "gradients/slice_thread.hpp"

#include <gtest/gtest.h>

namespace kolo::train {
namespace {

using Plan = std::vector<std::uint64_t>;

TEST(SlicePlan, WhatIsReadyAtOnceGoesInTheOrderOfUse) {
  const std::vector<SlicedBucket> buckets = {{1, 1.0, 0, 2}, {2, 1.0, 0, 0}, {2, 1.0, 0, 1}};
  EXPECT_EQ(plan_slices(buckets, 0), (Plan{1, 1, 2, 2, 0}));
}

TEST(SlicePlan, ABucketThatIsUsedSoonerOvertakesTheSlicesThatAreLeft) {
  const std::vector<SlicedBucket> buckets = {{4, 1.0, 0, 1}, {2, 1.0, 1.5, 0}};
  EXPECT_EQ(plan_slices(buckets, 0), (Plan{0, 0, 1, 1, 0, 0}));
  EXPECT_EQ(plan_slices(buckets, 1.0), (Plan{0, 0, 0, 1, 1, 0})) << "ready 0.5 before it would go";
}

TEST(SlicePlan, LinksThatAreIdleTakeWhatIsReadyNext) {
  const std::vector<SlicedBucket> buckets = {{1, 1.0, 1, 2}, {1, 1.0, 5, 0}, {1, 1.0, 3, 1}};
  EXPECT_EQ(plan_slices(buckets, 10), (Plan{0, 2, 1}));
}

TEST(SlicePlan, NoBucketsNoPlan) {
  EXPECT_TRUE(plan_slices({}, 0).empty());
}

}  // namespace
}  // namespace kolo::train

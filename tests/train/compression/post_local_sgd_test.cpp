// Post-local SGD: averages over all ranks first, within groups later.
#include <gtest/gtest.h>

#include <vector>

#include "kolo/error.hpp"
#include "support/require.hpp"
#include "train/compression/replicas.hpp"

namespace kolo::test {
namespace {

/// What `rank` of 5 has after each of `steps` averages of its own number.
std::vector<std::vector<float>> averages_of(const std::string& hook_name, int steps,
                                            const std::function<bool(int step)>& is_kept) {
  std::vector<std::vector<float>> averages(5);
  expect_ranks({.size = 5}, [&](Communicator& communicator) {
    const auto hook = make_gradient_hook(hook_name);
    const std::vector<GradientPart> parts = {{"x", {1}, 0, 1}};
    for (int step = 0; step < steps; ++step) {
      std::vector<float> mine = {static_cast<float>(communicator.rank())};
      GradientBucket bucket;
      bucket.gradients = mine;
      bucket.parts = parts;
      hook->average(bucket, communicator);
      hook->end_step(is_kept(step));
      averages[static_cast<std::size_t>(communicator.rank())].push_back(mine[0]);
    }
  });
  return averages;
}

TEST(PostLocalSgd, GroupsGoTheirOwnWayAfterTheFirstSteps) {
  const auto groups = averages_of("post_local_sgd:start_after_steps=2:ranks_per_group=2", 4,
                                  [](int step) { return step != 1; });
  // The second step did not count.
  EXPECT_EQ(groups[0], (std::vector<float>{2, 2, 2, 0.5}));
  EXPECT_EQ(groups[3], (std::vector<float>{2, 2, 2, 2.5}));
  EXPECT_EQ(groups[4], (std::vector<float>{2, 2, 2, 4}));
  const auto alone = averages_of("post_local_sgd", 1, [](int) { return true; });
  for (std::size_t rank = 0; rank < 5; ++rank) EXPECT_EQ(alone[rank][0], static_cast<float>(rank));
}

TEST(PostLocalSgd, AGroupMayForgetAStepOfItsOwn) {
  std::vector<float> last(4);
  expect_ranks({.size = 4}, [&](Communicator& communicator) {
    const auto hook = make_gradient_hook("post_local_sgd:ranks_per_group=2");
    const std::vector<GradientPart> parts = {{"x", {1}, 0, 1}};
    for (int step = 0; step < 3; ++step) {
      std::vector<float> mine = {static_cast<float>(communicator.rank())};
      GradientBucket bucket;
      bucket.gradients = mine;
      bucket.parts = parts;
      hook->average(bucket, communicator);
      hook->end_step(step != 1 || communicator.rank() < 2);
      last[static_cast<std::size_t>(communicator.rank())] = mine[0];
    }
  });
  EXPECT_EQ(last, (std::vector<float>{0.5, 0.5, 2.5, 2.5}));
}

TEST(PostLocalSgd, AGroupHasARank) {
  EXPECT_THROW(make_gradient_hook("post_local_sgd:ranks_per_group=0"), InvalidArgumentError);
}

}  // namespace
}  // namespace kolo::test

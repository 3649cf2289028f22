// The checker's proof of every registered algorithm, for every size, root and awkward count.
#include <gtest/gtest.h>

#include <string>

#include "schedule/checker.hpp"
#include "unit/algorithms/all_ranks.hpp"

namespace kolo {
namespace {

class EveryAlgorithm : public testing::TestWithParam<Algorithm> {};

TEST_P(EveryAlgorithm, IsProvedForEverySizeRootAndCount) {
  const Algorithm& algorithm = GetParam();
  for (int size = 1; size <= 33; ++size) {
    for (const int root : roots(algorithm, size)) {
      const std::vector<Schedule> schedules = all_ranks(algorithm, size, root);
      for (const auto& counts : awkward_counts(part_count(schedules[0]))) {
        const Status status = check_schedules(schedules, counts, algorithm.rank_ordered);
        ASSERT_TRUE(status.ok()) << size << " ranks, root " << root << ": " << status.message();
      }
    }
  }
}

TEST_P(EveryAlgorithm, IsPure) {
  const Algorithm& algorithm = GetParam();
  const ScheduleSpec spec{algorithm.collective, 2, 5, 3};
  const Schedule one = algorithm.generate(spec);
  const Schedule two = algorithm.generate(spec);
  ASSERT_EQ(one.steps.size(), two.steps.size());
  EXPECT_EQ(one.dependencies, two.dependencies);
  EXPECT_EQ(one.rank, 2);
  EXPECT_EQ(one.size, 5);
  EXPECT_EQ(one.root, 3);
  EXPECT_EQ(one.collective, algorithm.collective);
}

TEST_P(EveryAlgorithm, HasAPurposeAndASource) {
  EXPECT_FALSE(GetParam().name.empty());
  EXPECT_FALSE(GetParam().purpose.empty());
  EXPECT_FALSE(GetParam().source.empty());
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryAlgorithm, testing::ValuesIn(algorithms()), [](const auto& test) {
  return std::string(name_of(test.param.collective)) + "_" + std::string(test.param.name);
});

}  // namespace
}  // namespace kolo

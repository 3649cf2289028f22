// The checker's proof of every registered algorithm and its closed form, for every size, root and awkward
// count.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "schedule/checker.hpp"
#include "unit/algorithms/all_ranks.hpp"

namespace kolo {
namespace {

constexpr int kMostRanks = 64;
constexpr std::size_t kCheap = 300'000;  // total number of steps of all ranks

class EveryAlgorithm : public testing::TestWithParam<algorithms::ConfiguredAlgorithm> {};

TEST_P(EveryAlgorithm, IsProvedForEverySizeRootAndCount) {
  const algorithms::ConfiguredAlgorithm& variant = GetParam();
  for (int size = 1; size <= kMostRanks; ++size) {
    for (const std::vector<int>& hosts : placements(size)) {
      if (!hosts.empty() && size > 20) continue;
      for (const int root : roots(*variant.algorithm, size)) {
        if (!serves(variant, size, root, hosts)) continue;
        const std::vector<schedule::Schedule> schedules = all_ranks(variant, size, root, hosts);
        if (!hosts.empty() && are_alike(schedules, all_ranks(variant, size, root))) continue;
        auto all_counts = awkward_counts(*variant.algorithm, schedule::part_count(schedules[0]));
        // For large sizes, only the counts that differ most.
        if (size > 20)
          all_counts = {all_counts[std::min<std::size_t>(size % 2 == 0 ? 3 : 5, all_counts.size() - 2)]};
        for (const auto& counts : all_counts) {
          const Status status = schedule::check_schedules(schedules, counts, variant.algorithm->rank_ordered);
          ASSERT_TRUE(status.ok()) << size << " ranks, root " << root << ": " << status.message();
        }
      }
    }
  }
}

/// The cost of these schedules in equal chunks.
schedule::ScheduleTotals cost_of(const std::vector<schedule::Schedule>& schedules) {
  return schedule::count_totals(schedules, std::vector<std::uint64_t>(schedule::part_count(schedules[0]), 1));
}

/// Compares a counted cost with the closed form. `first`: the schedule of rank 0.
void expect_stated_cost(const algorithms::ConfiguredAlgorithm& variant, const schedule::Schedule& first,
                        const schedule::ScheduleTotals& totals, const std::vector<int>& hosts) {
  const algorithms::ClosedForm& form = variant.algorithm->closed_form;
  const algorithms::StepsAndBytes stated =
      form.of({first.collective, 0, first.size, first.root, variant.arguments, hosts});
  const std::string where = std::to_string(first.size) + " ranks, root " + std::to_string(first.root);
  if (form.at_most) {
    // The bound must be tight enough to be meaningful.
    EXPECT_LE(totals.steps, stated.steps) << where;
    EXPECT_LE(totals.max_sent, stated.sent) << where;
    EXPECT_GE(2 * totals.steps, stated.steps) << where;
    EXPECT_GE(2 * totals.max_sent, stated.sent) << where;
  } else {
    EXPECT_EQ(totals.steps, stated.steps) << where;
    EXPECT_EQ(totals.max_sent, stated.sent) << where;
  }
}

TEST_P(EveryAlgorithm, CostsWhatItsClosedFormSays) {
  const algorithms::ConfiguredAlgorithm& variant = GetParam();
  for (int size = 1; size <= kMostRanks; ++size) {
    for (const int root : {0, size / 2}) {
      if (root > 0 && !schedule::has_root(variant.algorithm->collective)) continue;
      std::vector<schedule::Schedule> counted;
      schedule::ScheduleTotals totals;
      for (const std::vector<int>& hosts : placements(size)) {
        if (!serves(variant, size, root, hosts)) continue;
        auto schedules = all_ranks(variant, size, root, hosts);
        // Most algorithms ignore hosts: what they cost is counted once.
        if (counted.empty() || !are_alike(schedules, counted)) totals = cost_of(schedules);
        counted = std::move(schedules);
        expect_stated_cost(variant, counted[0], totals, hosts);
      }
    }
  }
}

/// The schedules of all ranks; empty if they have more than `most` steps.
std::vector<schedule::Schedule> cheap_schedules(const algorithms::ConfiguredAlgorithm& variant, int size,
                                                std::size_t most) {
  std::vector<schedule::Schedule> schedules;
  std::size_t steps = 0;
  for (int rank = 0; rank < size; ++rank) {
    const algorithms::ScheduleSpec spec{variant.algorithm->collective, rank, size, 0, variant.arguments, {}};
    schedules.push_back(variant.algorithm->generate(spec));
    steps += schedules.back().steps.size();
    if (steps > most) return {};
  }
  return schedules;
}

TEST_P(EveryAlgorithm, IsProvedForManyRanksWhereItIsCheap) {
  const algorithms::ConfiguredAlgorithm& variant = GetParam();
  for (const int size : {128, 255, 256, 1000}) {
    if (!serves(variant, size)) continue;
    const auto schedules = cheap_schedules(variant, size, kCheap);
    if (schedules.empty()) continue;
    const auto all_counts = awkward_counts(*variant.algorithm, schedule::part_count(schedules[0]));
    const Status status =
        schedule::check_schedules(schedules, all_counts[std::min<std::size_t>(3, all_counts.size() - 1)],
                                  variant.algorithm->rank_ordered);
    ASSERT_TRUE(status.ok()) << size << " ranks: " << status.message();
    expect_stated_cost(variant, schedules[0], cost_of(schedules), {});
  }
}

TEST_P(EveryAlgorithm, IsPure) {
  const algorithms::ConfiguredAlgorithm& variant = GetParam();
  int size = 4;
  while (!serves(variant, size, 3)) ++size;
  const algorithms::ScheduleSpec spec{variant.algorithm->collective, 2, size, 3, variant.arguments, {}};
  const schedule::Schedule one = variant.algorithm->generate(spec);
  const schedule::Schedule two = variant.algorithm->generate(spec);
  ASSERT_EQ(one.steps.size(), two.steps.size());
  EXPECT_EQ(one.dependencies, two.dependencies);
  EXPECT_EQ(one.rank, 2);
  EXPECT_EQ(one.size, size);
  EXPECT_EQ(one.root, 3);
  EXPECT_EQ(one.collective, variant.algorithm->collective);
  EXPECT_EQ(one.out_of_place_only, variant.algorithm->out_of_place_only);
}

TEST_P(EveryAlgorithm, SaysWhatItIsForAndWhereItComesFrom) {
  const algorithms::Algorithm& algorithm = *GetParam().algorithm;
  EXPECT_FALSE(algorithm.name.empty());
  EXPECT_FALSE(algorithm.purpose.empty());
  EXPECT_FALSE(algorithm.use.empty());
  EXPECT_FALSE(algorithm.source.empty());
  EXPECT_FALSE(algorithm.closed_form.steps.empty());
  EXPECT_FALSE(algorithm.closed_form.sent.empty());
  for (const algorithms::Parameter& parameter : algorithm.parameters) EXPECT_FALSE(parameter.purpose.empty());
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryAlgorithm, testing::ValuesIn(test::all_variants()),
                         [](const auto& test) { return test::test_name(test.param); });

}  // namespace
}  // namespace kolo

// Composition: an all_reduce in pairs and then one across the pairs, with any scratch of either.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/compose.hpp"
#include "schedule/checker.hpp"
#include "unit/algorithms/all_ranks.hpp"
#include "unit/algorithms/interpreter.hpp"

namespace kolo {
namespace {

schedule::Schedule all_reduce(std::string_view name, int rank, int size) {
  return algorithms::find_algorithm(schedule::Collective::all_reduce, name)
      ->generate({schedule::Collective::all_reduce, rank, size});
}

/// Pairs of adjacent ranks run `inside`. Then the first ranks of all pairs run `across`, and so do the second
/// ranks.
std::vector<schedule::Schedule> in_pairs(std::string_view inside, std::string_view across, int pairs) {
  std::vector<schedule::Schedule> result;
  for (int rank = 0; rank < 2 * pairs; ++rank) {
    std::vector<int> alike;
    for (int pair = 0; pair < pairs; ++pair) alike.push_back(2 * pair + rank % 2);
    const int first = rank - rank % 2;
    const std::vector<algorithms::Part> parts = {
        {all_reduce(inside, rank % 2, 2), {first, first + 1}, schedule::BufferName::input, false},
        {all_reduce(across, rank / 2, pairs), alike, schedule::BufferName::output, true}};
    const std::uint32_t chunks = std::lcm(parts[0].schedule.chunks, parts[1].schedule.chunks);
    result.push_back(algorithms::compose({schedule::Collective::all_reduce, rank, 2 * pairs}, chunks, parts));
  }
  return result;
}

void expect_right(const std::vector<schedule::Schedule>& schedules) {
  std::mt19937 random(5);
  for (const auto& counts : awkward_counts(schedule::part_count(schedules[0]))) {
    const Status status = schedule::check_schedules(schedules, counts);
    ASSERT_TRUE(status.ok()) << status.message();
    if (std::ranges::max(counts) > 200) continue;  // slow, and without a new case for the interpreter
    for (const bool in_place : {false, true}) {
      ASSERT_EQ(run_randomly(schedules, counts, {.in_place = in_place, .eager = true}, random), "");
    }
  }
}

TEST(Compose, KeepsSlotsThatAreAlikeAndThoseThatAreLaidOutApart) {
  for (int pairs = 2; pairs <= 7; ++pairs) {
    for (const bool is_alike_first : {true, false}) {
      const auto schedules = is_alike_first ? in_pairs("recursive_doubling", "circulant", pairs)
                                            : in_pairs("circulant", "recursive_doubling", pairs);
      EXPECT_GT(schedule::alike_slots(schedules[1]), 0u);
      EXPECT_EQ(schedules[1].scratch_like.size(), 1u);
      ASSERT_NO_FATAL_FAILURE(expect_right(schedules)) << pairs << " pairs";
    }
  }
}

TEST(Compose, LaysOutTheScratchOfEachPart) {
  for (int pairs = 2; pairs <= 7; ++pairs) {
    const auto schedules = in_pairs("circulant", "circulant", pairs);
    EXPECT_EQ(schedules[1].scratch_like.size(), 2u);
    EXPECT_EQ(schedules[1].scratch_like[0].buffer, schedule::BufferName::input);
    EXPECT_EQ(schedules[1].scratch_like[1].buffer, schedule::BufferName::output);
    ASSERT_NO_FATAL_FAILURE(expect_right(schedules)) << pairs << " pairs";
  }
}

TEST(Compose, SharesSlotsThatAreAlike) {
  const auto schedules = in_pairs("recursive_doubling", "recursive_doubling", 4);
  const std::uint32_t alone = all_reduce("recursive_doubling", 0, 4).scratch_chunks;
  EXPECT_EQ(schedules[0].scratch_chunks, alone);
  expect_right(schedules);
}

}  // namespace
}  // namespace kolo

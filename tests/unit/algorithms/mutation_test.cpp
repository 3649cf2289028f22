// Runs schedules in an independent interpreter. Registered schedules are right in every order. Mutated
// schedules are either refused by the checker or still right.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <string>

#include "schedule/checker.hpp"
#include "schedule/printer.hpp"
#include "unit/algorithms/all_ranks.hpp"
#include "unit/algorithms/interpreter.hpp"

namespace kolo {
namespace {

using Counts = std::vector<std::uint64_t>;

bool runs_in_place(const algorithms::Algorithm& algorithm, const schedule::Schedule& schedule,
                   const Counts& counts) {
  if (schedule.out_of_place_only || algorithm.collective == schedule::Collective::barrier) return false;
  const bool equal = std::equal(counts.begin() + 1, counts.end(), counts.begin());
  return algorithm.collective != schedule::Collective::all_to_all || equal;
}

/// Tries each way to bind buffers and to transport messages, in a few random orders. Returns the first
/// failure.
std::string failure(const algorithms::Algorithm& algorithm, const std::vector<schedule::Schedule>& schedules,
                    const Counts& counts, int orders, std::mt19937& random) {
  for (const bool in_place : {false, true}) {
    // A broadcast has one buffer only.
    if (in_place ? !runs_in_place(algorithm, schedules[0], counts)
                 : algorithm.collective == schedule::Collective::broadcast) {
      continue;
    }
    for (const bool eager : {false, true}) {
      for (int i = 0; i < orders; ++i) {
        const Trial trial{in_place, eager, algorithm.rank_ordered};
        const std::string why = run_randomly(schedules, counts, trial, random);
        if (!why.empty()) return why + (in_place ? " in place" : "") + (eager ? ", eager" : "");
      }
    }
  }
  return {};
}

Counts some_counts(const algorithms::Algorithm& algorithm, std::uint32_t parts, std::mt19937& random) {
  Counts counts(parts, random() % 4);
  if (algorithm.even_parts_only) return counts;
  for (std::uint64_t& count : counts) count = random() % 4;
  return counts;
}

class RandomOrders : public testing::TestWithParam<algorithms::ConfiguredAlgorithm> {};

TEST_P(RandomOrders, GiveTheRightResult) {
  const algorithms::ConfiguredAlgorithm& variant = GetParam();
  const algorithms::Algorithm& algorithm = *variant.algorithm;
  std::mt19937 random(1);
  for (int size = 1; size <= 8; ++size) {
    for (const int root : roots(algorithm, size)) {
      if (!serves(variant, size, root)) continue;
      const auto schedules = all_ranks(variant, size, root);
      const std::uint32_t parts = schedule::part_count(schedules[0]);
      for (const Counts& counts : {some_counts(algorithm, parts, random), Counts(parts, 1)}) {
        ASSERT_EQ(failure(algorithm, schedules, counts, 2, random), "") << size << " ranks, root " << root;
      }
    }
  }
}

/// Rewrites the dependencies of each step by `change`.
void rewrite_dependencies(schedule::Schedule& schedule,
                          const std::function<void(std::uint32_t, std::vector<std::uint32_t>&)>& change) {
  std::vector<std::uint32_t> all;
  for (std::uint32_t s = 0; s < schedule.steps.size(); ++s) {
    schedule::Step& step = schedule.steps[s];
    const auto old = schedule.dependencies_of(step);
    std::vector<std::uint32_t> list(old.begin(), old.end());
    change(s, list);
    step.first_dependency = static_cast<std::uint32_t>(all.size());
    step.dependency_count = static_cast<std::uint32_t>(list.size());
    all.insert(all.end(), list.begin(), list.end());
  }
  schedule.dependencies = std::move(all);
}

void mutate_range(schedule::ChunkRange& range, std::mt19937& random) {
  const auto nudge = [&](std::uint32_t& value) { value = value + random() % 3 - 1; };
  switch (random() % 5) {
    case 0:
      return nudge(range.begin);
    case 1:
      return nudge(range.count);
    case 2:
      range.buffer = static_cast<schedule::BufferName>(random() % 3);
      return;
    case 3:
      range.like_buffer = static_cast<schedule::BufferName>(random() % 2);
      return;
    default:
      return nudge(range.like_begin);
  }
}

/// Applies one random mutation; returns its description.
const char* mutate(schedule::Schedule& schedule, std::mt19937& random) {
  const auto s = static_cast<std::uint32_t>(random() % schedule.steps.size());
  schedule::Step& step = schedule.steps[s];
  switch (random() % 10) {
    case 0:
    case 1:
      rewrite_dependencies(schedule, [&](std::uint32_t id, std::vector<std::uint32_t>& list) {
        if (id >= s && !list.empty() && random() % 2) list.erase(list.begin() + random() % list.size());
      });
      return "drop dependencies";
    case 2:
      step.peer = static_cast<int>(random()) % schedule.size;
      return "retarget";
    case 3:
      mutate_range(step.dst, random);
      return "change dst";
    case 4:
      mutate_range(step.kind == schedule::StepKind::reduce && random() % 2 ? step.b : step.a, random);
      return "change operand";
    case 5:
      step.completes = !step.completes;
      return "flip completes";
    case 6:
      step.incoming_first = !step.incoming_first;
      return "flip incoming_first";
    case 7:
      schedule.steps.erase(schedule.steps.begin() + s);
      rewrite_dependencies(schedule, [&](std::uint32_t, std::vector<std::uint32_t>& list) {
        std::erase(list, s);
        for (std::uint32_t& d : list) d -= d > s ? 1 : 0;
      });
      return "drop step";
    case 8:
      if (s + 1 == schedule.steps.size()) return "nothing";
      std::swap(step, schedule.steps[s + 1]);
      rewrite_dependencies(schedule, [&](std::uint32_t, std::vector<std::uint32_t>& list) {
        for (std::uint32_t& d : list) d = d == s ? s + 1 : d == s + 1 ? s : d;
      });
      return "swap steps";
    default:
      rewrite_dependencies(schedule, [&](std::uint32_t id, std::vector<std::uint32_t>& list) {
        if (id == s && s > 0) list.push_back(random() % s);
      });
      return "add dependency";
  }
}

TEST(Mutations, AreRefusedOrHarmless) {
  std::mt19937 random(20240607);
  std::map<std::string, int> refused;
  std::map<std::string, int> accepted;
  const std::vector<algorithms::ConfiguredAlgorithm> variants = test::all_variants();
  for (int i = 0; i < 12000; ++i) {
    const algorithms::ConfiguredAlgorithm& variant = variants[random() % variants.size()];
    const algorithms::Algorithm& algorithm = *variant.algorithm;
    // The interpreter checks data, and a barrier has none.
    if (algorithm.collective == schedule::Collective::barrier) continue;
    const int size = 2 + static_cast<int>(random() % 4);
    const int root = schedule::has_root(algorithm.collective) ? static_cast<int>(random()) % size : 0;
    if (!serves(variant, size, std::abs(root))) continue;
    auto schedules = all_ranks(variant, size, std::abs(root));
    schedule::Schedule& victim = schedules[random() % schedules.size()];
    if (victim.steps.empty()) continue;
    const char* what = mutate(victim, random);
    const std::uint32_t parts = schedule::part_count(victim);
    const Counts counts = random() % 2 ? Counts(parts, 2) : some_counts(algorithm, parts, random);
    if (!schedule::check_schedules(schedules, counts, algorithm.rank_ordered).ok()) {
      ++refused[what];
      continue;
    }
    ++accepted[what];
    ASSERT_EQ(failure(algorithm, schedules, counts, 3, random), "")
        << "accepted though broken (" << what << "): " << variant.name() << "\n"
        << schedule::to_string(victim);
  }
  // An additional dependency rarely closes a cycle; the checker's own test covers cycles.
  for (const char* what : {"drop dependencies", "retarget", "change dst", "change operand", "flip completes",
                           "flip incoming_first", "drop step", "swap steps"}) {
    EXPECT_GT(refused[what], 0) << what;
  }
  // Some mutations are harmless, and the checker must not refuse all of them.
  for (const char* what : {"drop dependencies", "swap steps", "add dependency", "flip incoming_first"}) {
    EXPECT_GT(accepted[what], 0) << what;
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, RandomOrders, testing::ValuesIn(test::all_variants()),
                         [](const auto& test) { return test::test_name(test.param); });

}  // namespace
}  // namespace kolo

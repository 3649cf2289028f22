// Claims about the ring: the bytes that it sends, its dependencies, the time to generate it.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "schedule/checker.hpp"
#include "unit/algorithms/all_ranks.hpp"

namespace kolo {
namespace {

using Counts = std::vector<std::uint64_t>;

std::uint64_t total(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

std::uint64_t sent(const schedule::Schedule& schedule, const Counts& counts) {
  const schedule::ChunkLengths lengths = schedule::chunk_lengths(schedule, counts);
  std::uint64_t sum = 0;
  for (const schedule::Step& step : schedule.steps) {
    if (step.kind == schedule::StepKind::send) sum += lengths.of(step.a);
  }
  return sum;
}

std::vector<schedule::Schedule> ring(schedule::Collective collective, int size) {
  return all_ranks({algorithms::find_algorithm(collective, "ring")}, size);
}

std::uint64_t part(int rank, int size) {
  return static_cast<std::uint64_t>((rank + size) % size);
}

TEST(RingAllReduce, SendsExactlyTwiceAllButOneChunk) {
  for (int size = 1; size <= 33; ++size) {
    const auto schedules = ring(schedule::Collective::all_reduce, size);
    for (const Counts& counts : awkward_counts(schedule::part_count(schedules[0]))) {
      for (int rank = 0; rank < size; ++rank) {
        // All chunks except its own while reducing, all except the next rank's while gathering.
        const std::uint64_t expected =
            size == 1 ? 0 : 2 * total(counts) - counts[part(rank, size)] - counts[part(rank + 1, size)];
        EXPECT_EQ(sent(schedules[static_cast<std::size_t>(rank)], counts), expected)
            << rank << " of " << size;
      }
    }
  }
}

TEST(RingAllReduce, SendsTwoTimesNMinusOneNthsOfTheData) {
  for (int size = 1; size <= 33; ++size) {
    const auto schedules = ring(schedule::Collective::all_reduce, size);
    const auto n = static_cast<std::uint64_t>(size);
    const Counts even(n, 1000);
    Counts uneven(n);
    std::iota(uneven.begin(), uneven.end(), std::uint64_t{3});
    std::uint64_t sum = 0;
    for (const schedule::Schedule& schedule : schedules) {
      EXPECT_EQ(sent(schedule, even) * n, 2 * (n - 1) * total(even)) << schedule.rank << " of " << size;
      sum += sent(schedule, uneven);
    }
    // With uneven chunks the ranks differ by a few elements; the average over the ranks is exactly this
    // number.
    EXPECT_EQ(sum, 2 * (n - 1) * total(uneven)) << size;
  }
}

TEST(RingHalves, SendAllButOnePart) {
  for (int size = 1; size <= 33; ++size) {
    const auto reduce_scatter = ring(schedule::Collective::reduce_scatter, size);
    const auto all_gather = ring(schedule::Collective::all_gather, size);
    for (const Counts& counts : awkward_counts(static_cast<std::uint32_t>(size))) {
      for (int rank = 0; rank < size; ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        EXPECT_EQ(sent(reduce_scatter[r], counts), size == 1 ? 0 : total(counts) - counts[r]);
        EXPECT_EQ(sent(all_gather[r], counts), size == 1 ? 0 : total(counts) - counts[part(rank + 1, size)]);
      }
    }
  }
}

TEST(RingAllReduce, TakesTwiceNMinusOneRounds) {
  for (int size = 2; size <= 33; ++size) {
    schedule::ScheduleTotals totals;
    const auto schedules = ring(schedule::Collective::all_reduce, size);
    const Counts counts(static_cast<std::size_t>(size), 10);
    ASSERT_TRUE(schedule::check_schedules(schedules, counts, false, &totals).ok());
    const auto n = static_cast<std::uint64_t>(size);
    EXPECT_EQ(totals.rounds, 2 * (n - 1));
    EXPECT_EQ(totals.messages, 2 * (n - 1) * n);
    EXPECT_EQ(totals.max_sent, 2 * (n - 1) * 10);
  }
}

TEST(RingAllReduce, PostsEveryReducingReceiveAtOnceAndNeedsNoScratchNorCopy) {
  for (const schedule::Schedule& schedule : ring(schedule::Collective::all_reduce, 8)) {
    EXPECT_EQ(schedule.scratch_chunks, 0u);
    for (const schedule::Step& step : schedule.steps) {
      EXPECT_NE(step.kind, schedule::StepKind::copy);
      if (step.kind == schedule::StepKind::recv_reduce) {
        EXPECT_EQ(step.dependency_count, 0u);
      } else {
        EXPECT_LE(step.dependency_count, 1u);
      }
    }
  }
}

TEST(RingAllGather, PostsEveryReceiveAtOnce) {
  for (const schedule::Schedule& schedule : ring(schedule::Collective::all_gather, 8)) {
    for (const schedule::Step& step : schedule.steps) {
      if (step.kind != schedule::StepKind::send) {
        EXPECT_EQ(step.dependency_count, 0u);
      }
    }
  }
}

TEST(RingReduceScatter, KeepsTwoPartialSums) {
  for (const schedule::Schedule& schedule : ring(schedule::Collective::reduce_scatter, 8))
    EXPECT_EQ(schedule.scratch_chunks, 2u);
  for (const schedule::Schedule& schedule : ring(schedule::Collective::reduce_scatter, 2))
    EXPECT_EQ(schedule.scratch_chunks, 0u);
}

TEST(RingAllReduce, IsGeneratedInNearLinearTime) {
  const algorithms::Algorithm& algorithm =
      *algorithms::find_algorithm(schedule::Collective::all_reduce, "ring");
  const auto best_of_five = [&](int size) {
    std::chrono::duration<double> best = std::chrono::hours(1);
    for (int i = 0; i < 5; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      const schedule::Schedule schedule =
          algorithm.generate({schedule::Collective::all_reduce, size / 2, size, 0});
      best = std::min<std::chrono::duration<double>>(best, std::chrono::steady_clock::now() - begin);
      EXPECT_EQ(schedule.steps.size(), 4u * static_cast<std::size_t>(size - 1));
    }
    return best.count();
  };
  // Milliseconds in practice; the bound is far above what a loaded or instrumented machine takes.
  EXPECT_LT(best_of_five(1000), 0.5);
  EXPECT_LT(best_of_five(50000), 25);
}

}  // namespace
}  // namespace kolo

// DistributedSampler deals every sample to one rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "kolo/error.hpp"
#include "kolo/train/distributed_sampler.hpp"

namespace kolo {
namespace {

std::vector<std::vector<std::int64_t>> deal(std::int64_t size, int ranks,
                                            const DistributedSamplerOptions& options,
                                            std::uint64_t epoch = 0) {
  std::vector<std::vector<std::int64_t>> result;
  for (int rank = 0; rank < ranks; ++rank) {
    DistributedSampler sampler(size, rank, ranks, options);
    sampler.set_epoch(epoch);
    result.push_back(sampler.indices());
    EXPECT_EQ(std::ssize(result.back()), sampler.samples_per_rank());
  }
  return result;
}

TEST(DistributedSampler, DealsEachSampleOnceButForPadding) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (const std::int64_t size : {0, 1, 2, 3, 5, 8, 9, 10, 17, 64, 100, 101}) {
      for (const bool shuffle : {false, true}) {
        for (const bool drop_last : {false, true}) {
          const auto parts = deal(size, ranks, {.shuffle = shuffle, .seed = 7, .drop_last = drop_last}, 3);
          std::map<std::int64_t, std::int64_t> seen;
          for (const auto& part : parts) {
            EXPECT_EQ(part.size(), parts.front().size());
            for (const std::int64_t index : part) {
              EXPECT_GE(index, 0);
              EXPECT_LT(index, size);
              ++seen[index];
            }
          }
          const std::int64_t dealt = std::ssize(parts.front()) * ranks;
          if (drop_last) {
            EXPECT_EQ(dealt, size / ranks * ranks);
            EXPECT_EQ(std::ssize(seen), dealt) << "nothing twice";
          } else {
            EXPECT_EQ(std::ssize(seen), size) << "nothing left out";
            EXPECT_LT(dealt, size + ranks);
            for (const auto& [index, times] : seen) {
              EXPECT_LE(times, (dealt + size - 1) / size) << "no more padding than needed";
            }
          }
        }
      }
    }
  }
}

TEST(DistributedSampler, GlobalBatchesDoNotDependOnTheNumberOfRanks) {
  const auto alone = deal(96, 1, {.seed = 5}).front();
  for (const int ranks : {2, 3, 4, 6}) {
    const auto parts = deal(96, ranks, {.seed = 5});
    constexpr std::size_t kBatch = 12;
    const std::size_t share = kBatch / static_cast<std::size_t>(ranks);
    for (std::size_t batch = 0; batch < 96 / kBatch; ++batch) {
      std::set<std::int64_t> together;
      for (const auto& part : parts) {
        for (std::size_t i = batch * share; i < (batch + 1) * share; ++i) together.insert(part[i]);
      }
      const auto begin = alone.begin() + static_cast<std::ptrdiff_t>(batch * kBatch);
      EXPECT_EQ(together, std::set<std::int64_t>(begin, begin + kBatch));
    }
  }
}

TEST(DistributedSampler, OrderDependsOnSeedAndEpoch) {
  const auto order = [](std::uint64_t seed, std::uint64_t epoch) {
    return deal(1000, 1, {.seed = seed}, epoch).front();
  };
  EXPECT_EQ(order(1, 2), order(1, 2));
  EXPECT_NE(order(1, 2), order(1, 3));
  EXPECT_NE(order(1, 2), order(2, 2));
  EXPECT_NE(order(1, 0), order(1ull << 32, 0));
  EXPECT_FALSE(std::ranges::is_sorted(order(1, 2)));
  EXPECT_TRUE(std::ranges::is_sorted(deal(1000, 1, {.shuffle = false}, 4).front()));
}

TEST(DistributedSampler, OrderIsTheSameOnEveryMachine) {
  EXPECT_EQ(deal(8, 1, {.seed = 1}).front(), (std::vector<std::int64_t>{7, 6, 0, 5, 2, 3, 1, 4}));
}

TEST(DistributedSampler, RefusesSenselessRanks) {
  EXPECT_THROW(DistributedSampler(10, 2, 2), InvalidArgument);
  EXPECT_THROW(DistributedSampler(10, -1, 2), InvalidArgument);
  EXPECT_THROW(DistributedSampler(10, 0, 0), InvalidArgument);
  EXPECT_THROW(DistributedSampler(-1, 0, 1), InvalidArgument);
}

}  // namespace
}  // namespace kolo

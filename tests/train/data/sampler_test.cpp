// DistributedSampler deals every sample to one rank.
#include "kolo/train/data.hpp"

#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <torch/data.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "kolo/error.hpp"

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

/// Its own index as the data.
struct Numbers : torch::data::datasets::Dataset<Numbers> {
  torch::data::Example<> get(std::size_t index) override {
    return {at::full({1}, static_cast<std::int64_t>(index), at::kLong), at::empty({0})};
  }
  using Size = decltype(std::declval<const torch::data::datasets::TensorDataset&>().size());
  Size size() const override { return 22; }
};

TEST(DistributedSampler, ServesADataLoaderWithANewOrderInEachEpoch) {
  std::multiset<std::int64_t> all_ranks;
  std::vector<std::vector<std::int64_t>> epochs;
  for (int rank = 0; rank < 2; ++rank) {
    DistributedSampler sampler(22, rank, 2);
    auto loader =
        torch::data::make_data_loader(Numbers().map(torch::data::transforms::Stack<>()), sampler, 4);
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<std::int64_t> seen;
      for (const auto& batch : *loader) {
        for (std::int64_t i = 0; i < batch.data.size(0); ++i)
          seen.push_back(batch.data[i].item<std::int64_t>());
      }
      EXPECT_EQ(sampler.epoch(), epoch) << "the loader's copy has its own";
      EXPECT_EQ(seen, sampler.indices());
      if (epoch == 1) all_ranks.insert(seen.begin(), seen.end());
      if (rank == 0) epochs.push_back(seen);
    }
    sampler.set_epoch(1);
    const auto first = (*loader->begin()).data[0].item<std::int64_t>();
    EXPECT_EQ(first, sampler.indices()[0]);
    EXPECT_EQ(sampler.epoch(), 1u);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_EQ(all_ranks.size(), 22u);
  EXPECT_EQ(std::set<std::int64_t>(all_ranks.begin(), all_ranks.end()).size(), 22u);
}

void load_state(DistributedSampler& sampler, const DistributedSampler& of) {
  torch::serialize::OutputArchive out;
  of.save(out);
  std::stringstream file;
  out.save_to(file);
  torch::serialize::InputArchive in;
  in.load_from(file);
  sampler.load(in);
}

/// `sampler` goes on from the state of `of`, as a data loader does.
void go_on(DistributedSampler& sampler, const DistributedSampler& of) {
  load_state(sampler, of);
  sampler.reset();
}

TEST(DistributedSampler, GoesOnAfterAnEpochThatWasLoadedAlsoWithoutADataLoader) {
  DistributedSampler sampler(20, 1, 2);
  sampler.next(3);
  DistributedSampler loaded(20, 1, 2);
  load_state(loaded, sampler);
  EXPECT_EQ(loaded.next(100)->size(), 7u);
  loaded.reset();
  EXPECT_EQ(loaded.epoch(), 1u);
  EXPECT_EQ(loaded.next(100)->size(), 10u);
}

TEST(DistributedSampler, GoesOnWithinAnEpochAfterItWasLoaded) {
  DistributedSampler sampler(20, 1, 2);
  sampler.set_epoch(7);
  sampler.reset();
  sampler.next(3);
  DistributedSampler loaded(20, 1, 2);
  go_on(loaded, sampler);
  EXPECT_EQ(loaded.epoch(), 7u);
  EXPECT_EQ(*loaded.next(100), *sampler.next(100));
  EXPECT_FALSE(loaded.next(1).has_value());
  loaded.reset();
  EXPECT_EQ(loaded.epoch(), 8u);
  EXPECT_EQ(loaded.next(100)->size(), 10u);
  loaded.reset(6);
  EXPECT_EQ(loaded.next(100)->size(), 3u) << "the data set has got smaller";
}

TEST(DistributedSampler, GoesOnWithAnotherNumberOfRanksAndGivesEachSampleOnce) {
  constexpr int kSize = 120;
  for (const std::vector<int>& numbers_of_ranks :
       {std::vector<int>{4, 2}, {2, 4}, {4, 3}, {1, 4}, {3, 3}, {4, 2, 3, 1}}) {
    std::multiset<std::size_t> seen;
    std::optional<DistributedSampler> before;
    for (const int& ranks : numbers_of_ranks) {
      std::optional<DistributedSampler> first;
      for (int rank = 0; rank < ranks; ++rank) {
        DistributedSampler sampler(kSize, rank, ranks, {.seed = 3});
        sampler.set_epoch(2);
        if (before) go_on(sampler, *before);
        const auto batch = sampler.next(&ranks == &numbers_of_ranks.back() ? kSize : 12);
        seen.insert(batch->begin(), batch->end());
        if (rank == 0) first = sampler;
      }
      before = first;
    }
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(kSize));
    EXPECT_EQ(std::set<std::size_t>(seen.begin(), seen.end()).size(), static_cast<std::size_t>(kSize));
  }
}

TEST(DistributedSampler, RefusesTheStateOfAnotherOne) {
  const DistributedSampler of(100, 0, 2, {.seed = 3});
  for (const auto& [size, options] :
       std::vector<std::pair<int, DistributedSamplerOptions>>{{90, {.seed = 3}},
                                                              {100, {.seed = 4}},
                                                              {100, {.shuffle = false, .seed = 3}},
                                                              {100, {.seed = 3, .drop_last = true}}}) {
    DistributedSampler other(size, 0, 2, options);
    other.set_epoch(5);
    EXPECT_THROW(go_on(other, of), InvalidArgumentError);
    EXPECT_EQ(other.epoch(), 5u) << "nothing has changed";
  }
}

TEST(DistributedSampler, RefusesSenselessRanks) {
  EXPECT_THROW(DistributedSampler(10, 2, 2), InvalidArgumentError);
  EXPECT_THROW(DistributedSampler(10, -1, 2), InvalidArgumentError);
  EXPECT_THROW(DistributedSampler(10, 0, 0), InvalidArgumentError);
  EXPECT_THROW(DistributedSampler(-1, 0, 1), InvalidArgumentError);
}

}  // namespace
}  // namespace kolo

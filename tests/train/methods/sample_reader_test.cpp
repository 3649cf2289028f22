// Shards: all samples, each on one rank, in orders that depend on seed and epoch alone.
#include "methods/sample_reader.hpp"

#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <torch/serialize.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "kolo/error.hpp"
#include "support/temporary_folder.hpp"

namespace kolo::test::data {
namespace {

using namespace methods;

class Shards : public testing::Test {
 protected:
  /// Samples are their numbers, twice: as labels, and as a row of data.
  void write(std::int64_t samples, std::int64_t shards) {
    const at::Tensor labels = at::arange(samples);
    write_samples({labels.to(at::kFloat).unsqueeze(1).expand({samples, 3}), labels}, folder_, shards, 5);
  }
  /// The labels that a rank gets in an epoch, batch by batch.
  std::vector<std::vector<std::int64_t>> epoch_of(SampleReader& reader) {
    std::vector<std::vector<std::int64_t>> batches;
    while (const auto batch = reader.next()) {
      EXPECT_EQ(batch->size(), 2u);
      EXPECT_TRUE((*batch)[0].select(1, 2).equal((*batch)[1].to(at::kFloat)));
      const at::Tensor labels = (*batch)[1].contiguous();
      batches.emplace_back(labels.data_ptr<std::int64_t>(), labels.data_ptr<std::int64_t>() + labels.numel());
    }
    return batches;
  }
  std::string error_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }

  const TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path();
};

TEST_F(Shards, EachSampleIsOnOneRank) {
  write(101, 7);
  for (const int ranks : {1, 2, 3, 7}) {
    std::vector<std::int64_t> seen;
    for (int rank = 0; rank < ranks; ++rank) {
      SampleReader reader(folder_, rank, ranks, 8, {.drop_uneven = false});
      const auto batches = epoch_of(reader);
      EXPECT_EQ(static_cast<std::int64_t>(batches.size()), reader.batches_per_epoch());
      for (std::size_t i = 0; i < batches.size(); ++i) {
        EXPECT_TRUE(batches[i].size() == 8 || i + 1 == batches.size());
        seen.insert(seen.end(), batches[i].begin(), batches[i].end());
      }
    }
    std::ranges::sort(seen);
    std::vector<std::int64_t> all(101);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
    EXPECT_EQ(seen, all) << ranks << " ranks";
  }
}

TEST_F(Shards, RanksHaveEqualNumbersOfFullBatches) {
  write(100, 7);  // of 3 ranks the first has three shards
  for (int rank = 0; rank < 3; ++rank) {
    SampleReader reader(folder_, rank, 3, 8);
    EXPECT_EQ(reader.batches_per_epoch(), 28 / 8);
    const auto batches = epoch_of(reader);
    ASSERT_EQ(batches.size(), 3u);
    for (const auto& batch : batches) EXPECT_EQ(batch.size(), 8u);
  }
}

TEST_F(Shards, EpochsHaveOrdersOfTheirOwn) {
  write(60, 4);
  SampleReader reader(folder_, 1, 2, 30), other(folder_, 1, 2, 30);
  const auto first = epoch_of(reader), second = epoch_of(reader);
  EXPECT_NE(first, second);
  EXPECT_EQ(reader.epoch(), 2u);
  other.set_epoch(1);
  EXPECT_EQ(epoch_of(other), second);
  ASSERT_TRUE(reader.next().has_value());
  reader.set_epoch(0);  // amid an epoch
  EXPECT_EQ(epoch_of(reader), first);
  auto sorted = first[0];
  std::ranges::sort(sorted);
  EXPECT_NE(first[0], sorted);
  SampleReader plain(folder_, 1, 2, 30, {.shuffle = false});
  EXPECT_EQ(epoch_of(plain), epoch_of(plain));
}

TEST_F(Shards, FilesAtFaultAreNamed) {
  const auto read_all = [&] {
    SampleReader reader(folder_, 0, 2, 5);
    epoch_of(reader);
  };
  EXPECT_NE(error_of(read_all).find("cannot read " + folder_ + "/index.pt"), std::string::npos);
  write(40, 4);
  std::filesystem::remove(folder_ + "/shard-2.pt");
  EXPECT_NE(error_of(read_all).find("cannot read " + folder_ + "/shard-2.pt"), std::string::npos);
  std::filesystem::copy(folder_ + "/index.pt", folder_ + "/shard-2.pt");
  EXPECT_NE(error_of(read_all).find("/shard-2.pt has not the 10 samples"), std::string::npos);
  std::ofstream(folder_ + "/shard-2.pt") << "no archive";
  EXPECT_NE(error_of(read_all).find("cannot read " + folder_ + "/shard-2.pt"), std::string::npos);
  std::filesystem::copy(folder_ + "/shard-0.pt", folder_ + "/index.pt",
                        std::filesystem::copy_options::overwrite_existing);
  EXPECT_NE(error_of(read_all).find("index.pt is no index of shards"), std::string::npos);
}

TEST_F(Shards, AShardThatCouldNotBeReadIsReadAgain) {
  write(20, 2);
  const std::string shard = folder_ + "/shard-1.pt", good = folder_ + "/good";
  SampleReader reader(folder_, 0, 1, 4, {.shuffle = false}),
      undisturbed(folder_, 0, 1, 4, {.shuffle = false});
  const auto expected = epoch_of(undisturbed);
  std::filesystem::rename(shard, good);
  std::vector<std::int64_t> labels;
  const auto take = [&] {
    const auto batch = reader.next();
    ASSERT_TRUE(batch.has_value());
    labels.push_back((*batch)[1][0].item<std::int64_t>());
  };
  take();
  take();
  for (int call = 0; call < 3; ++call)  // two samples of the first shard wait for two of the second one
    EXPECT_NE(error_of([&] { reader.next(); }).find("cannot read " + shard), std::string::npos);
  torch::save(Batch(), shard);
  EXPECT_NE(error_of([&] { reader.next(); }).find(shard + " has not the 10 samples"), std::string::npos);
  std::filesystem::rename(good, shard);
  for (int i = 0; i < 3; ++i) take();
  EXPECT_FALSE(reader.next().has_value());
  ASSERT_EQ(expected.size(), labels.size());
  for (std::size_t i = 0; i < labels.size(); ++i) EXPECT_EQ(labels[i], expected[i][0]);
  EXPECT_EQ(epoch_of(reader), expected);
}

TEST_F(Shards, WhatCannotBeIsRefused) {
  EXPECT_THROW(write_samples({at::zeros({3}), at::zeros({4})}, folder_, 1), InvalidArgumentError);
  EXPECT_THROW(write_samples({}, folder_, 1), InvalidArgumentError);
  EXPECT_THROW(write(3, 4), InvalidArgumentError);
  EXPECT_THROW(write(3, 0), InvalidArgumentError);
  EXPECT_NE(error_of([&] {
              write_samples({at::zeros({3})}, "/dev/null/folder", 1);
            }).find("cannot make /dev/null/folder"),
            std::string::npos);
  write(12, 3);
  EXPECT_THROW(SampleReader(folder_, 0, 4, 1), InvalidArgumentError);
  EXPECT_THROW(SampleReader(folder_, 3, 3, 1), InvalidArgumentError);
  EXPECT_THROW(SampleReader(folder_, 0, 3, 0), InvalidArgumentError);
}

}  // namespace
}  // namespace kolo::test::data

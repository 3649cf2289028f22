// BatchScatter: the parts of all ranks are the batch, and all ranks end together.
#include "methods/batch_scatter.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#include "kolo/error.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::data {
namespace {

using namespace methods;

/// Batches of `sizes` samples, numbered from 0 on; then the end.
BatchScatter::Source batches_of(std::vector<std::int64_t> sizes) {
  return [sizes, next = std::size_t{0}, first = std::int64_t{0}]() mutable -> std::optional<Batch> {
    if (next == sizes.size()) return {};
    const std::int64_t size = sizes[next++];
    const at::Tensor labels = at::arange(first, first + size);
    first += size;
    // One that does not lie in one piece.
    return Batch{at::stack({labels, labels * 2}).t().to(at::kFloat), labels};
  };
}

TEST(Scatter, EachRankGetsItsPart) {
  for (const int ranks : {1, 2, 3}) {
    const std::vector<std::int64_t> sizes = {7, 1, 6, 0};
    run_all(ranks, [&](Communicator& communicator) {
      BatchScatter scatter(communicator,
                           communicator.rank() == 0 ? batches_of(sizes) : BatchScatter::Source());
      std::int64_t first = 0;
      for (const std::int64_t size : sizes) {
        const auto batch = scatter.next();
        ASSERT_TRUE(batch.has_value());
        const std::int64_t begin = size * communicator.rank() / ranks,
                           end = size * (communicator.rank() + 1) / ranks;
        EXPECT_TRUE((*batch)[1].equal(at::arange(first + begin, first + end)));
        EXPECT_EQ((*batch)[0].sizes(), at::IntArrayRef({end - begin, 2}));
        EXPECT_TRUE((*batch)[0].select(1, 1).equal((*batch)[1].to(at::kFloat) * 2));
        first += size;
      }
      EXPECT_FALSE(scatter.next().has_value());
      EXPECT_FALSE(scatter.next().has_value());
    });
  }
}

TEST(Scatter, IsOneBatchAhead) {
  std::atomic<int> made = 0;
  run_all(2, [&](Communicator& communicator) {
    BatchScatter scatter(communicator, [&]() -> std::optional<Batch> {
      ++made;
      return Batch{at::zeros({4})};
    });
    ASSERT_TRUE(scatter.next().has_value());
    ASSERT_TRUE(scatter.next().has_value());
    communicator.barrier();
    // Two were taken; the third may have been made, and no more.
    EXPECT_LE(made.load(), 3);
    communicator.barrier();
    ASSERT_TRUE(scatter.next().has_value());
    EXPECT_GE(made.load(), 3);
  });
}

TEST(Scatter, WhatTheSourceThrowsComesToAllRanks) {
  const std::string text = error_of_all(3, [](Communicator& communicator) {
    BatchScatter scatter(communicator, [next = 0]() mutable -> std::optional<Batch> {
      if (next++ == 1) throw std::runtime_error("the disk is gone");
      return Batch{at::zeros({4})};
    });
    while (scatter.next()) {
    }
  });
  EXPECT_NE(text.find("rank 0 has no batch to scatter: the disk is gone"), std::string::npos) << text;
}

TEST(Scatter, WhatIsNoBatchIsRefused) {
  const auto refused = [](const Batch& batch) {
    return error_of_all(2, [&](Communicator& communicator) {
      BatchScatter scatter(communicator, [&]() -> std::optional<Batch> { return batch; });
      scatter.next();
    });
  };
  EXPECT_NE(refused({at::zeros({3}), at::zeros({4})}).find("differ in their first dimension"),
            std::string::npos);
  EXPECT_NE(refused({}).find("a batch has no tensors"), std::string::npos);
  EXPECT_NE(refused({at::zeros({3}, at::kComplexHalf)}).find("kolo cannot reduce tensors of type"),
            std::string::npos);
  const std::string none =
      error_of_all(2, [](Communicator& communicator) { const BatchScatter scatter(communicator, {}); });
  EXPECT_NE(none.find("BatchScatter: rank 0: there is no source of batches"), std::string::npos) << none;
}

TEST(Scatter, ARankThatEndsEndsItForAll) {
  std::string text;
  run_all(2, [&](Communicator& communicator) {
    {
      BatchScatter scatter(communicator, []() -> std::optional<Batch> { return Batch{at::zeros({4})}; });
      scatter.next();
      if (communicator.rank() == 1) {
        try {
          while (scatter.next()) {
          }
        } catch (const Error& error) {
          text = error.what();
        }
      }
    }
    communicator.barrier();  // and what else there is goes on
  });
  EXPECT_NE(text.find("rank 0 has ended its BatchScatter"), std::string::npos) << text;
}

}  // namespace
}  // namespace kolo::test::data

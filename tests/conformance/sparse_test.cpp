// Sparse all-reduce: exact sums at the union of all indices, over every transport, and what it sends.
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <random>

#include "support/cluster.hpp"
#include "support/pattern.hpp"
#include "support/require.hpp"
#include "support/transports.hpp"

namespace kolo::test {
namespace {

using Draw = std::function<bool(int rank, std::uint64_t index)>;

/// The contribution of `rank`: small integers, so every order of addition gives the same sum.
template <typename T>
SparseVector<T> contribution_of(int rank, std::uint64_t length, const Draw& has, std::uint64_t width = 1) {
  SparseVector<T> vector{length, {}, {}, width};
  for (std::uint64_t i = 0; i < length; ++i) {
    if (!has(rank, i)) continue;
    vector.indices.push_back(i);
    for (std::uint64_t column = 0; column < width; ++column)
      vector.values.push_back(static_cast<T>((static_cast<std::uint64_t>(rank) * 5 + i + 3 * column) % 7));
  }
  return vector;
}

template <typename T>
SparseVector<T> expected_sum(int size, std::uint64_t length, const Draw& has, std::uint64_t width = 1) {
  std::map<std::uint64_t, std::vector<T>> sums;
  for (int rank = 0; rank < size; ++rank) {
    const auto one = contribution_of<T>(rank, length, has, width);
    for (std::size_t k = 0; k < one.indices.size(); ++k) {
      std::vector<T>& row = sums[one.indices[k]];
      row.resize(width);
      for (std::size_t column = 0; column < width; ++column)
        row[column] = static_cast<T>(row[column] + one.values[k * width + column]);
    }
  }
  SparseVector<T> sum{length, {}, {}, width};
  for (const auto& [index, row] : sums) {
    sum.indices.push_back(index);
    sum.values.insert(sum.values.end(), row.begin(), row.end());
  }
  return sum;
}

/// Equal on every rank for equal arguments.
Draw random_with(std::function<double(int, std::uint64_t)> probability) {
  return [probability = std::move(probability)](int rank, std::uint64_t index) {
    std::minstd_rand random(static_cast<unsigned>(index * 977 + static_cast<std::uint64_t>(rank) * 131 + 17));
    random.discard(3);
    return static_cast<double>(random()) / std::minstd_rand::max() < probability(rank, index);
  };
}

const std::map<std::string, Draw>& kinds_of_data() {
  static const std::map<std::string, Draw> kinds = {
      {"empty", [](int, std::uint64_t) { return false; }},
      {"full", [](int, std::uint64_t) { return true; }},
      {"on one rank alone", [](int rank, std::uint64_t) { return rank == 0; }},
      {"the same everywhere", [](int, std::uint64_t i) { return i % 11 == 3; }},
      {"nowhere the same", [](int rank, std::uint64_t i) { return i % 16 == static_cast<unsigned>(rank); }},
      {"few", random_with([](int, std::uint64_t) { return 0.01; })},
      {"half", random_with([](int, std::uint64_t) { return 0.5; })},
      {"power law", random_with([](int, std::uint64_t i) { return 10 / (1 + static_cast<double>(i)); })},
      {"unequal ranks", random_with([](int rank, std::uint64_t) { return rank % 3 / 3.0; })},
  };
  return kinds;
}

std::vector<std::vector<int>> degrees_for(int size) {
  std::vector<std::vector<int>> all = {{}};
  if (size == 4) all.push_back({2, 2});
  if (size == 6) all.insert(all.end(), {{2, 3}, {3, 2}});
  if (size == 8) all.insert(all.end(), {{2, 2, 2}, {4, 2}, {2, 4}});
  return all;
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
// Instrumented code is twenty times slower, and fewer cases are enough for it.
constexpr int kSparseSizes[] = {1, 3, 4};
constexpr int kCountedSizes[] = {4};
#else
constexpr int kSparseSizes[] = {1, 2, 3, 4, 5, 6, 7, 8};
constexpr int kCountedSizes[] = {2, 4, 8};
#endif

class SparseOver : public ::testing::TestWithParam<const char*> {};

TEST_P(SparseOver, EveryRankGetsTheSumsAtAllIndices) {
  for (const int size : kSparseSizes) {
    expect_ranks({.size = size, .transport = GetParam()}, [&](Communicator& communicator) {
      for (const auto& degrees : degrees_for(size)) {
        for (const double share : {0.0, 0.5, 2.0}) {
          SparseAllReduce sparse(communicator, {.degrees = degrees, .dense_share = share});
          for (const auto& [name, has] : kinds_of_data()) {
            for (const std::uint64_t length : {0u, 1u, 7u, 2000u}) {
              const auto sum = sparse.sum(contribution_of<float>(communicator.rank(), length, has));
              require(
                  sum == expected_sum<float>(size, length, has),
                  name + ", " + std::to_string(length) + " elements, dense from " + std::to_string(share));
            }
          }
        }
      }
    });
  }
}

TEST_P(SparseOver, RowsOfElements) {
  expect_ranks({.size = 4, .transport = GetParam()}, [&](Communicator& communicator) {
    for (const double share : {0.0, 0.5, 2.0}) {
      SparseAllReduce sparse(communicator, {.dense_share = share});
      for (const auto& [name, has] : kinds_of_data()) {
        for (const std::uint64_t width : {2u, 3u, 64u}) {
          const auto sum = sparse.sum(contribution_of<float>(communicator.rank(), 300, has, width));
          require(sum == expected_sum<float>(4, 300, has, width),
                  name + ", rows of " + std::to_string(width) + ", dense from " + std::to_string(share));
        }
      }
      const auto sum =
          sparse.sum(contribution_of<std::int8_t>(communicator.rank(), 300, kinds_of_data().at("few"), 5));
      require(sum == expected_sum<std::int8_t>(4, 300, kinds_of_data().at("few"), 5), "rows of bytes");
    }
  });
}

template <typename T>
void sum_of_type(Communicator& communicator) {
  SparseAllReduce sparse(communicator, {.dense_share = 2});
  for (const auto& [name, has] : kinds_of_data()) {
    const auto sum = sparse.sum(contribution_of<T>(communicator.rank(), 500, has));
    require(sum == expected_sum<T>(communicator.size(), 500, has),
            name + " of " + std::string(name_of(dtype_of<T>)));
  }
}

TEST_P(SparseOver, ElementTypes) {
  expect_ranks({.size = 4, .transport = GetParam()}, [](Communicator& communicator) {
    sum_of_type<double>(communicator);
    sum_of_type<std::int8_t>(communicator);
    sum_of_type<std::uint16_t>(communicator);
    sum_of_type<std::int64_t>(communicator);
    for (const DType dtype : {DType::float16, DType::bfloat16}) {
      Array values(3, dtype);
      values.fill([&](auto i) { return 1.0 + static_cast<double>(i); });
      const std::vector<std::uint64_t> indices{2, 5, 900};
      const auto [where, bytes] = SparseAllReduce(communicator).sum(1000, indices, values.buffer());
      require(where == indices && bytes.size() == 6, "other indices");
      for (std::uint64_t i = 0; i < 3; ++i)
        require(load(&bytes[2 * i], dtype) == 4.0 * (1.0 + static_cast<double>(i)), "a wrong half");
    }
  });
}

TEST_P(SparseOver, IndicesBeyond32Bits) {
  expect_ranks({.size = 3, .transport = GetParam()}, [](Communicator& communicator) {
    const std::uint64_t length = std::uint64_t{1} << 45;
    const auto own = static_cast<std::uint64_t>(communicator.rank());
    const SparseVector<int> mine{length, {own, length / 2, length - 3 + own}, {1, 2, 3}};
    const auto sum = SparseAllReduce(communicator).sum(mine);
    require(
        sum.indices == std::vector<std::uint64_t>{0, 1, 2, length / 2, length - 3, length - 2, length - 1},
        "other indices");
    require(sum.values == std::vector<int>{1, 1, 1, 6, 3, 3, 3}, "other values");
  });
}

TEST_P(SparseOver, AllRanksHoldTheSameBitsAndAgainTheSame) {
  expect_ranks({.size = 6, .transport = GetParam()}, [](Communicator& communicator) {
    const std::uint64_t length = 3000;
    const Draw& has = kinds_of_data().at("half");
    auto mine = contribution_of<float>(communicator.rank(), length, has);
    for (std::size_t k = 0; k < mine.values.size(); ++k)
      mine.values[k] =
          1.0f / (1.0f + static_cast<float>(k) + 1000.0f * static_cast<float>(communicator.rank()));
    for (const double share : {0.0, 2.0}) {
      SparseAllReduce sparse(communicator, {.dense_share = share});
      const auto sum = sparse.sum(mine);
      require(sum == sparse.sum(mine), "the same data gave other bits");
      std::vector<float> all(sum.values.size() * 6);
      communicator.all_gather(sum.values, all);
      for (std::size_t r = 0; r < 6; ++r) {
        require(std::equal(sum.values.begin(), sum.values.end(),
                           all.begin() + static_cast<std::ptrdiff_t>(r * sum.values.size())),
                "ranks hold different bits");
      }
    }
  });
}

/// Bytes that this rank sends for one sum.
std::uint64_t bytes_sent(SparseAllReduce& sparse, Communicator& communicator,
                         const SparseVector<float>& mine) {
  const std::uint64_t before = communicator.counters().bytes_sent;
  sparse.sum(mine);
  return communicator.counters().bytes_sent - before;
}

TEST_P(SparseOver, SendsWhatIsThereAndNeverMuchMoreThanDense) {
  constexpr std::uint64_t kLength = 40'000;
  for (const int size : kCountedSizes) {
    expect_ranks({.size = size, .transport = GetParam()}, [&](Communicator& communicator) {
      const auto ranks = static_cast<double>(size);
      const double dense = 2 * (ranks - 1) / ranks * kLength * sizeof(float);
      // Metadata: 32 bytes to every other rank, and 8 bytes for each block's count in every layer; some
      // algorithms send them more than once.
      const double told = 2 * (32 * (ranks - 1) + 2 * 8 * 3 * ranks);
      for (const auto& degrees : degrees_for(size)) {
        SparseAllReduce automatic(communicator,
                                  {.degrees = degrees, .dense_share = 0.5, .dense_algorithm = "ring"});
        SparseAllReduce never_dense(communicator, {.degrees = degrees, .dense_share = 2});
        for (const double density : {0.001, 0.01, 0.1, 0.5, 0.9, 1.0}) {
          const auto mine = contribution_of<float>(communicator.rank(), kLength,
                                                   random_with([&](int, std::uint64_t) { return density; }));
          for (SparseAllReduce* sparse : {&automatic, &never_dense}) {
            const auto sent = static_cast<double>(bytes_sent(*sparse, communicator, mine));
            // A bit for each element beside the values; parts of random data differ a little.
            require(sent <= 1.04 * dense * (1 + 1.0 / 32) + told,
                    std::to_string(density) + ": " + std::to_string(sent) + " bytes, dense " +
                        std::to_string(dense));
            // Worst case: no index is common to two ranks. Each element has 4 bytes of index and 4 of value,
            // down and up.
            const double disjoint = (1 + ranks) * density * kLength * 8 * (ranks - 1) / ranks;
            require(sent <= 1.3 * disjoint + told, std::to_string(density) + ": " + std::to_string(sent) +
                                                       " bytes for " + std::to_string(disjoint));
          }
        }
      }
    });
  }
}

TEST_P(SparseOver, GoesDenseWhereSparseNoLongerPays) {
  expect_ranks({.size = 4, .transport = GetParam()}, [](Communicator& communicator) {
    const auto operations = [&](double density, double share, std::vector<int> degrees) {
      SparseAllReduce sparse(communicator, {.degrees = std::move(degrees), .dense_share = share});
      const auto mine = contribution_of<float>(communicator.rank(), 2000,
                                               random_with([&](int, std::uint64_t) { return density; }));
      const std::uint64_t before = communicator.counters().operations;
      sparse.sum(mine);
      return communicator.counters().operations - before;
    };
    // One operation for metadata. Then two for each layer and direction; or (dense) the elements, and their
    // bitmap if there are gaps.
    require(operations(0.01, 0.5, {4}) == 1 + 4 && operations(0.01, 0.5, {2, 2}) == 1 + 8, "not sparse");
    require(operations(0.9, 0.5, {4}) == 1 + 2 && operations(1, 0.5, {4}) == 1 + 1, "not dense");
    require(operations(0.9, 2, {4}) == 1 + 4 && operations(0.01, 0, {4}) == 1 + 2, "not as told");
    require(operations(0, 0.5, {4}) == 1, "moved nothing in several steps");
  });
}

TEST_P(SparseOver, SkewedDataBurdensNoRankMoreThanOthers) {
  expect_ranks({.size = 8, .transport = GetParam()}, [](Communicator& communicator) {
    SparseAllReduce sparse(communicator, {.degrees = {4, 2}, .dense_share = 2});
    const auto oversubscribed =
        random_with([](int, std::uint64_t i) { return 200 / (1 + static_cast<double>(i)); });
    const auto sent = static_cast<double>(bytes_sent(
        sparse, communicator, contribution_of<float>(communicator.rank(), 50'000, oversubscribed)));
    std::vector<double> all(8);
    communicator.all_gather(std::vector<double>{sent}, all);
    const double mean = std::accumulate(all.begin(), all.end(), 0.0) / 8;
    for (const double one : all)
      require(one < 1.25 * mean, std::to_string(one) + " of " + std::to_string(mean));
  });
}

TEST_P(SparseOver, RanksThatDisagreeAllLearnWho) {
  const auto expect_mismatch = [&](const std::string& said,
                                   const std::function<void(Communicator&)>& disagree) {
    const Outcome outcome = run_ranks({.size = 3, .transport = GetParam()}, [&](Communicator& communicator) {
      try {
        disagree(communicator);
      } catch (const MismatchError& error) {
        require(error.context().peer == 1, "blames another");
        communicator.barrier();  // the communicator still works
        throw;
      }
    });
    for (const std::string& error : outcome.errors) {
      EXPECT_NE(error.find("disagree"), std::string::npos) << error;
      EXPECT_NE(error.find(said), std::string::npos) << error;
    }
  };
  const auto odd = [](Communicator& c) { return c.rank() == 1; };
  expect_mismatch("rank 0 has a vector of 10 float32, rank 1 has a vector of 11 float32",
                  [&](Communicator& c) {
                    SparseAllReduce(c).sum(SparseVector<float>{odd(c) ? 11u : 10u, {3}, {1}});
                  });
  expect_mismatch("rank 1 has a vector of 10 int32", [&](Communicator& c) {
    SparseAllReduce sparse(c);
    odd(c) ? void(sparse.sum(SparseVector<int>{10, {}, {}}))
           : void(sparse.sum(SparseVector<float>{10, {}, {}}));
  });
  expect_mismatch("rank 0 has 10 rows of 4 float32, rank 1 has 10 rows of 3 float32", [&](Communicator& c) {
    SparseAllReduce(c).sum(SparseVector<float>{10, {}, {}, odd(c) ? 3u : 4u});
  });
  expect_mismatch("options",
                  [&](Communicator& c) { SparseAllReduce(c, {.dense_share = odd(c) ? 0.25 : 0.5}); });
  expect_mismatch("options",
                  [&](Communicator& c) { SparseAllReduce(c, {.dense_algorithm = odd(c) ? "ring" : ""}); });
}

TEST_P(SparseOver, WrongArgumentsAreRefusedBeforeAnyByteMoves) {
  expect_ranks({.size = 2, .transport = GetParam()}, [](Communicator& c) {
    SparseAllReduce sparse(c);
    const auto before = c.counters();
    const auto refused = [](const char* expected, const std::function<void()>& call) {
      try {
        call();
      } catch (const InvalidArgumentError& error) {
        require(std::string(error.what()).find(expected) != std::string::npos, error.what());
        return;
      }
      throw std::runtime_error(std::string("not refused: ") + expected);
    };
    refused("not ascending: 3 after 5", [&] { sparse.sum(SparseVector<float>{10, {5, 3}, {1, 1}}); });
    refused("5 occurs twice", [&] { sparse.sum(SparseVector<float>{10, {5, 5}, {1, 1}}); });
    refused("10 is not below the length 10", [&] { sparse.sum(SparseVector<float>{10, {5, 10}, {1, 1}}); });
    refused("2 indices but 1 values", [&] { sparse.sum(SparseVector<float>{10, {5, 6}, {1}}); });
    refused("2 indices but 5 values in rows of 3", [&] {
      sparse.sum(SparseVector<float>{10, {5, 6}, std::vector<float>(5), 3});
    });
    refused(("rank " + std::to_string(c.rank()) + ": all_reduce_sparse: a width of 0").c_str(), [&] {
      sparse.sum(SparseVector<float>{10, {}, {}, 0});
    });
    refused("of 16 elements each is more than memory", [&] {
      sparse.sum(SparseVector<float>{1ull << 59, {}, {}, 16});
    });
    refused("null",
            [&] { sparse.sum(10, std::vector<std::uint64_t>{1}, ConstBuffer(nullptr, 1, DType::int8)); });
    refused("memory can hold", [&] { sparse.sum(SparseVector<float>{~0ull, {}, {}}); });
    refused("3 do not multiply to 2 ranks", [&] { SparseAllReduce(c, {.degrees = {3}}); });
    refused("degree 1 is less than 2", [&] { SparseAllReduce(c, {.degrees = {2, 1}}); });
    refused("rnig", [&] { SparseAllReduce(c, {.dense_algorithm = "rnig"}); });
    require(c.counters().operations == before.operations, "a refused call moved something");
    const auto sum = sparse.sum(SparseVector<float>{10, {5}, {1}});
    require(sum.values == std::vector<float>{2}, "wrong sum after refused calls");
  });
}

INSTANTIATE_TEST_SUITE_P(Conformance, SparseOver, kTransports, kTransportNames);

}  // namespace
}  // namespace kolo::test

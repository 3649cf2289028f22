#include "bench/pattern.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <set>

#include "base/element.hpp"
#include "support/types.hpp"

namespace kolo::bench {
namespace {

using test::kDTypes;

// The value converted to the type; integers wrap around as in the type.
bool holds_exactly(DType dtype, std::int64_t value) {
  return with_type(dtype, [&]<typename T>(std::type_identity<T>) {
    return test::as_double(widen(narrow<T>(value))) == static_cast<double>(value);
  });
}

TEST(BenchPattern, SumsAndTheirPartsAreExactUpTo64Ranks) {
  for (const DType dtype : kDTypes) {
    for (int ranks = 1; ranks <= 64; ++ranks) {
      const bool is_exact = !is_floating(dtype) || ranks <= 1 << std::min(element_type(dtype).digits, 7);
      ASSERT_EQ(Pattern::limitation(dtype, ReduceOp::sum, ranks).empty(), is_exact);
      if (!is_exact) continue;
      const Pattern pattern(dtype, ReduceOp::sum, ranks);
      for (std::uint64_t i = 0; i < 40; ++i) {
        std::int64_t sum = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const std::int64_t value = pattern.value(rank, 3, i);
          ASSERT_GE(value, 0) << "no cancellation: every partial sum lies below the whole";
          sum += value;
        }
        ASSERT_EQ(sum, pattern.reduced(3, i));
        ASSERT_TRUE(!is_floating(dtype) || holds_exactly(dtype, sum)) << kolo::name_of(dtype) << " " << sum;
      }
    }
  }
}

TEST(BenchPattern, EveryResultFitsEveryType) {
  for (const DType dtype : kDTypes) {
    for (const ReduceOp op : test::kReduceOps) {
      if (op == ReduceOp::sum || !knows(dtype, op)) continue;
      for (const int ranks : {1, 2, 3, 5, 8, 33, 64}) {
        if (!Pattern::limitation(dtype, op, ranks).empty()) continue;
        const Pattern pattern(dtype, op, ranks);
        for (std::uint64_t i = 0; i < 200; ++i) {
          ASSERT_TRUE(holds_exactly(dtype, pattern.reduced(i, i)))
              << kolo::name_of(op) << " " << pattern.reduced(i, i);
        }
      }
    }
  }
}

TEST(BenchPattern, AveragesAreWholeAndTheirSumsExact) {
  for (const int ranks : {1, 2, 3, 5, 8, 63, 64}) {
    const Pattern pattern(DType::bfloat16, ReduceOp::average, ranks);
    for (std::uint64_t i = 0; i < 200; ++i) {
      std::int64_t sum = 0;
      for (int rank = 0; rank < ranks; ++rank) sum += pattern.value(rank, 9, i);
      ASSERT_EQ(sum % ranks, 0);
      ASSERT_LE(sum, 256);
      ASSERT_EQ(sum / ranks, pattern.reduced(9, i));
    }
  }
}

TEST(BenchPattern, TooManyRanksAreRefusedInWords) {
  EXPECT_EQ(Pattern::limitation(DType::bfloat16, ReduceOp::sum, 256), "");
  EXPECT_NE(Pattern::limitation(DType::bfloat16, ReduceOp::sum, 257), "");
  EXPECT_EQ(Pattern::limitation(DType::int8, ReduceOp::average, 2).substr(0, 31),
            "there is no average of int8: on");
  EXPECT_EQ(Pattern::limitation(DType::int8, ReduceOp::sum, 100000), "");
  EXPECT_EQ(Pattern::limitation(DType::bfloat16, std::nullopt, 100000), "");
}

TEST(BenchPattern, DiffersByRankIterationAndPlace) {
  Pattern pattern(DType::int32, std::nullopt, 4);
  std::set<std::vector<std::int32_t>> seen;
  for (int rank = 0; rank < 4; ++rank) {
    for (std::uint64_t iteration = 1; iteration <= 10; ++iteration) {
      for (const std::uint64_t first : {0, 100, 4096}) {
        std::vector<std::int32_t> data(50);
        pattern.fill(data.data(), data.size(), rank, iteration, first);
        EXPECT_TRUE(seen.insert(data).second);
      }
    }
  }
}

TEST(BenchPattern, FillIsWhatValueSays) {
  Pattern pattern(DType::bfloat16, ReduceOp::sum, 5);
  std::vector<BFloat16> data(3 * Pattern::kPeriod + 7);
  pattern.fill(data.data(), data.size(), 2, 6, 1234);
  for (std::size_t i = 0; i < data.size(); ++i) {
    ASSERT_EQ(static_cast<std::int64_t>(to_float(data[i])), pattern.value(2, 6, 1234 + i)) << i;
  }
}

TEST(BenchPattern, EveryWrongElementIsCounted) {
  for (const DType dtype : kDTypes) {
    Pattern pattern(dtype, std::nullopt, 3);
    const std::uint64_t count = 2 * Pattern::kPeriod + 11;
    const std::size_t element = size_of(dtype);
    std::vector<std::byte> data(count * element);
    pattern.fill(data.data(), count, 1, 8, 5);
    ASSERT_EQ(pattern.count_wrong(data.data(), count, 1, 8, 5), 0u);
    // Single bits, in the first, the last, and elements on either side of the table's end.
    for (const std::uint64_t at : {std::uint64_t{0}, Pattern::kPeriod - 1, Pattern::kPeriod, count - 1}) {
      data[at * element + element - 1] ^= std::byte{1};
    }
    EXPECT_EQ(pattern.count_wrong(data.data(), count, 1, 8, 5), 4u) << kolo::name_of(dtype);
  }
}

TEST(BenchPattern, StaleForeignAndShiftedDataAreWrong) {
  for (const ReduceOp op : test::kReduceOps) {
    if (!knows(DType::float32, op)) continue;
    Pattern pattern(DType::float32, op, 4);
    const std::uint64_t count = 1000;
    std::vector<float> result(count);
    const auto reduce_into = [&](std::uint64_t iteration, std::uint64_t first) {
      for (std::uint64_t i = 0; i < count; ++i)
        result[i] = static_cast<float>(pattern.reduced(iteration, first + i));
    };
    reduce_into(7, 0);
    EXPECT_EQ(pattern.count_wrong_reduced(result.data(), count, 7), 0u) << kolo::name_of(op);
    EXPECT_GT(pattern.count_wrong_reduced(result.data(), count, 8), 0u) << "stale, " << kolo::name_of(op);
    EXPECT_GT(pattern.count_wrong_reduced(result.data(), count, 7, 1), 0u)
        << "shifted, " << kolo::name_of(op);
    // A missing or doubled contribution changes a sum.
    if (op == ReduceOp::sum) {
      for (std::uint64_t i = 0; i < count; ++i) result[i] -= static_cast<float>(pattern.value(2, 7, i));
      EXPECT_GT(pattern.count_wrong_reduced(result.data(), count, 7), count / 2);
    }
  }
}

}  // namespace
}  // namespace kolo::bench

// The parts of sparse all-reduce: the pairs that exchange, and the division, sums and wire encoding of
// blocks.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <set>

#include "comm/sparse/block.hpp"
#include "comm/sparse/layers.hpp"

namespace kolo::comm::sparse {
namespace {

RowKind rows_of_floats(std::size_t width) {
  return {sizeof(float), width, kernels::reduce_function(DType::float32, ReduceOp::sum)};
}

float element_at(std::uint64_t position, std::size_t column) {
  return static_cast<float>(position) + 0.25f * static_cast<float>(column);
}

/// Every `step`-th position from `first`.
SparseBlock every(std::uint64_t step, std::uint64_t first, std::uint64_t length, std::size_t width = 1) {
  SparseBlock block{length, {}, {}};
  for (std::uint64_t at = first; at < length; at += step) {
    block.positions.push_back(at);
    for (std::size_t column = 0; column < width; ++column) {
      const float value = element_at(at, column);
      const auto* bytes = reinterpret_cast<const std::byte*>(&value);
      block.values.insert(block.values.end(), bytes, bytes + sizeof value);
    }
  }
  return block;
}

void expect_equal(const SparseBlock& a, const SparseBlock& b) {
  EXPECT_EQ(a.length, b.length);
  EXPECT_EQ(a.positions, b.positions);
  EXPECT_EQ(a.values, b.values);
}

TEST(SparseLayers, DefaultDegreesMultiplyToTheRanks) {
  for (int ranks = 1; ranks <= 1000; ++ranks)
    EXPECT_EQ(degrees_fault(default_degrees(ranks), ranks), "") << ranks << " ranks";
  EXPECT_EQ(default_degrees(1), std::vector<int>{});
  EXPECT_EQ(default_degrees(8), std::vector<int>{8});
  EXPECT_EQ(default_degrees(12), (std::vector<int>{6, 2}));
  EXPECT_EQ(default_degrees(22), (std::vector<int>{11, 2}));
  EXPECT_EQ(default_degrees(100), (std::vector<int>{5, 5, 4}));
}

TEST(SparseLayers, WrongDegreesAreNamed) {
  EXPECT_NE(degrees_fault({2, 3}, 8).find("2 x 3 do not multiply to 8 ranks"), std::string::npos);
  EXPECT_NE(degrees_fault({}, 2).find("do not multiply"), std::string::npos);
  EXPECT_NE(degrees_fault({-2, -2}, 4).find("less than 2"), std::string::npos);
  EXPECT_NE(degrees_fault(std::vector<int>(70, 1 << 30), 4).find("do not multiply"), std::string::npos);
}

TEST(SparseLayers, EveryLayerDividesTheRanksIntoWholeGroups) {
  const std::vector<int> degrees{3, 2, 4};
  for (std::size_t layer = 0; layer < degrees.size(); ++layer) {
    std::set<std::pair<int, int>> taken;
    for (int rank = 0; rank < 24; ++rank) {
      const Place place = places(rank, degrees)[layer];
      EXPECT_LT(place.digit, degrees[layer]);
      EXPECT_TRUE(taken.insert({place.first_in_it, place.digit}).second) << "two ranks in one place";
    }
    for (const auto& [group, digit] : taken) EXPECT_TRUE(taken.contains({group, 0}));
  }
  EXPECT_EQ(places(4, degrees)[0].first_in_it, 3) << "the first layer joins neighbours";
}

TEST(SparseBlock, DividedAndJoinedItIsTheSame) {
  for (const std::uint64_t length : {0, 1, 5, 1000}) {
    for (const std::uint64_t step : {1, 2, 3, 7, 2000}) {
      for (const int parts : {1, 2, 3, 8}) {
        const RowKind kind = rows_of_floats(step);  // widths of one word, of two, and others
        const SparseBlock block = every(step, 1, length, step);
        auto divided = divide(block, parts, kind);
        std::uint64_t total = 0;
        for (int part = 0; part < parts; ++part) {
          EXPECT_EQ(divided[static_cast<std::size_t>(part)].length, part_length(length, parts, part));
          total += part_length(length, parts, part);
        }
        EXPECT_EQ(total, length);
        expect_equal(join(std::move(divided), length, kind), block);
      }
    }
  }
}

TEST(SparseBlock, AddsWhatMeetsAndKeepsTheRest) {
  for (const std::size_t width : {1, 2, 3, 64}) {
    const SparseBlock sum = add_up(
        {every(2, 0, 100, width), every(3, 0, 100, width), every(1, 0, 100, width)}, rows_of_floats(width));
    ASSERT_EQ(sum.positions.size(), 100u);
    ASSERT_EQ(sum.values.size(), 100 * width * sizeof(float));
    for (std::size_t i = 0; i < 100 * width; ++i) {
      float value;
      std::memcpy(&value, &sum.values[i * sizeof value], sizeof value);
      const std::uint64_t at = i / width;
      EXPECT_EQ(value, element_at(at, i % width) * static_cast<float>(1 + (at % 2 == 0) + (at % 3 == 0)));
    }
  }
}

TEST(SparseBlock, TravelsInTheFewestBytes) {
  EXPECT_EQ(packed_bytes(0, 1000, 4), 0u);
  EXPECT_EQ(packed_bytes(1000, 1000, 4), 4000u) << "no gap";
  EXPECT_EQ(packed_bytes(999, 1000, 4), 125u + 999 * 4) << "a bitmap";
  EXPECT_EQ(packed_bytes(10, 1000, 4), 10u * (4 + 4)) << "a list";
  EXPECT_EQ(packed_bytes(10, std::uint64_t{1} << 40, 4), 10u * (8 + 4)) << "a list of wide positions";
  for (std::uint64_t count = 0; count <= 5000; ++count)
    EXPECT_LE(packed_bytes(count, 5000, 2), std::min(count * (4 + 2), count * 2 + 625)) << count;
}

TEST(SparseBlock, PackedAndUnpackedItIsTheSame) {
  for (const std::uint64_t length : {std::uint64_t{0}, std::uint64_t{9}, std::uint64_t{1000}}) {
    for (const std::uint64_t step : {1, 2, 31, 32, 33, 500}) {
      const SparseBlock block = every(step, 0, length);
      std::vector<std::byte> bytes;
      pack(block, sizeof(float), bytes);
      EXPECT_EQ(bytes.size(), packed_bytes(block.positions.size(), length, sizeof(float)));
      SparseBlock back{length, {}, {}};
      ASSERT_TRUE(unpack(bytes, block.positions.size(), sizeof(float), back));
      expect_equal(back, block);
    }
  }
  SparseBlock wide{std::uint64_t{1} << 40, {7, (std::uint64_t{1} << 40) - 1}, std::vector<std::byte>(8)};
  std::vector<std::byte> bytes;
  pack(wide, sizeof(float), bytes);
  SparseBlock back{wide.length, {}, {}};
  ASSERT_TRUE(unpack(bytes, 2, sizeof(float), back));
  expect_equal(back, wide);
}

TEST(SparseBlock, BytesThatAreNoBlockAreRefused) {
  const auto refused = [](const SparseBlock& block, std::uint64_t count, std::uint64_t length) {
    std::vector<std::byte> bytes;
    pack(block, sizeof(float), bytes);
    SparseBlock back{length, {}, {}};
    return !unpack(bytes, count, sizeof(float), back);
  };
  const std::vector<std::byte> two(2 * sizeof(float));
  EXPECT_FALSE(refused({1000, {3, 4}, two}, 2, 1000));
  EXPECT_TRUE(refused({1000, {4, 3}, two}, 2, 1000)) << "not ascending";
  EXPECT_TRUE(refused({1000, {3, 3}, two}, 2, 1000)) << "twice";
  EXPECT_TRUE(refused({1000, {3, 1000}, two}, 2, 1000)) << "beyond the end";
  EXPECT_TRUE(refused({1000, {3, 4}, two}, 3, 1000)) << "another number of values";
  EXPECT_TRUE(refused({2, {0, 1}, two}, 3, 2)) << "more values than places";
  SparseBlock gaps = every(2, 0, 1000);
  gaps.positions.back() =
      gaps.positions.front();  // a repeated position: the bitmap has one bit fewer than values
  EXPECT_TRUE(refused(gaps, 500, 1000)) << "a bitmap of fewer values";
}

}  // namespace
}  // namespace kolo::comm::sparse

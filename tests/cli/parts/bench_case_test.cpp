#include "bench/case.hpp"

#include <gtest/gtest.h>

namespace kolo::bench {
namespace {

Case float_case(Kind kind, std::uint64_t bytes, int ranks) {
  return make_case(kind, bytes, ranks, DType::float32, ReduceOp::sum, false);
}

// As in nccl-tests: a size is that of the whole data, and a multiple of the number of ranks if ranks hold
// parts.
TEST(BenchCase, SizesAsNcclTestsCountsThem) {
  EXPECT_EQ(float_case(Kind::all_reduce, 1024, 3).count, 256u);
  EXPECT_EQ(float_case(Kind::all_reduce, 1024, 3).bytes(), 1024u);
  EXPECT_EQ(float_case(Kind::all_gather, 1024, 3).count, 85u);
  EXPECT_EQ(float_case(Kind::all_gather, 1024, 3).bytes(), 1020u);
  EXPECT_EQ(float_case(Kind::all_gather, 1024, 3).in_count(1), 85u);
  EXPECT_EQ(float_case(Kind::all_gather, 1024, 3).out_count(1), 255u);
  EXPECT_EQ(float_case(Kind::all_to_all, 8, 4).bytes(), 16u) << "at least one element";
  EXPECT_EQ(float_case(Kind::all_reduce, 0, 4).bytes(), 0u) << "nothing stays nothing";
  EXPECT_EQ(float_case(Kind::barrier, 64, 4).bytes(), 0u);
}

TEST(BenchCase, ARewriteReducesNothing) {
  Case rewrite = float_case(Kind::all_reduce, 1024, 4);
  EXPECT_EQ(rewrite.name(), "all_reduce");
  EXPECT_EQ(rewrite.reduction(), ReduceOp::sum);
  rewrite.rewrites = true;
  EXPECT_EQ(rewrite.name(), "rewrite");
  EXPECT_EQ(rewrite.reduction(), std::nullopt);
}

TEST(BenchCase, BusFactors) {
  EXPECT_DOUBLE_EQ(float_case(Kind::all_reduce, 8, 4).bus_factor(), 1.5);
  EXPECT_DOUBLE_EQ(float_case(Kind::reduce_scatter, 8, 4).bus_factor(), 0.75);
  EXPECT_DOUBLE_EQ(float_case(Kind::all_gather, 8, 4).bus_factor(), 0.75);
  EXPECT_DOUBLE_EQ(float_case(Kind::broadcast, 8, 4).bus_factor(), 1);
  EXPECT_DOUBLE_EQ(float_case(Kind::reduce, 8, 4).bus_factor(), 1);
  EXPECT_DOUBLE_EQ(float_case(Kind::all_reduce, 8, 1).bus_factor(), 0);
}

TEST(BenchCase, OnlyTheRootHasBothEnds) {
  EXPECT_EQ(float_case(Kind::scatter, 64, 4).in_count(0), 16u);
  EXPECT_EQ(float_case(Kind::scatter, 64, 4).in_count(1), 0u);
  EXPECT_EQ(float_case(Kind::gather, 64, 4).out_count(2), 0u);
  EXPECT_EQ(float_case(Kind::reduce, 64, 4).out_count(3), 0u);
}

TEST(BenchCase, AnOddRankHasNobodyToTalkTo) {
  EXPECT_EQ(float_case(Kind::send_recv, 64, 3).in_count(1), 16u);
  EXPECT_EQ(float_case(Kind::send_recv, 64, 3).in_count(2), 0u);
}

}  // namespace
}  // namespace kolo::bench

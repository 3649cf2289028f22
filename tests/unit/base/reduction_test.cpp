// Reductions: names, and the user's own.
#include "kolo/reduction.hpp"

#include <gtest/gtest.h>

#include "kolo/error.hpp"
#include "support/types.hpp"

namespace kolo {
namespace {

TEST(ReduceOp, NamesAreTheInverseOfParsing) {
  for (const ReduceOp op : test::kReduceOps) {
    ReduceOp parsed = ReduceOp::custom;
    EXPECT_TRUE(parse_reduce_op(name_of(op), parsed));
    EXPECT_EQ(parsed, op);
    EXPECT_EQ(Reduction(op).name(), name_of(op));
    EXPECT_EQ(Reduction(op).custom_reduction(), nullptr);
  }
  EXPECT_EQ(name_of(ReduceOp::average), "average");
}

TEST(ReduceOp, ParsingTakesNoCustomAndNothingElse) {
  ReduceOp op = ReduceOp::max;
  for (const char* name : {"custom", "", "Sum", "avg", "sum "}) {
    EXPECT_FALSE(parse_reduce_op(name, op)) << name;
    EXPECT_EQ(op, ReduceOp::max);
  }
}

TEST(Reduction, CustomKeepsItsFunction) {
  const Reduction reduction =
      Reduction::custom({.name = "bitwise or",
                         .combine =
                             [](void* out, const void* left, const void* right, std::uint64_t, DType) {
                               *static_cast<int*>(out) =
                                   *static_cast<const int*>(left) | *static_cast<const int*>(right);
                             },
                         .commutative = true});
  EXPECT_EQ(reduction.op(), ReduceOp::custom);
  EXPECT_EQ(reduction.name(), "bitwise or");
  const Reduction copied = reduction;  // shares the function
  ASSERT_NE(copied.custom_reduction(), nullptr);
  EXPECT_EQ(copied.custom_reduction(), reduction.custom_reduction());
  EXPECT_TRUE(copied.custom_reduction()->commutative);
  int out = 0;
  const int left = 1, right = 4;
  copied.custom_reduction()->combine(&out, &left, &right, 1, DType::int32);
  EXPECT_EQ(out, 5);
}

TEST(Reduction, CustomWithoutANameIsCalledCustom) {
  const auto nothing = [](void*, const void*, const void*, std::uint64_t, DType) {};
  EXPECT_EQ(Reduction::custom({.name = "", .combine = nothing}).name(), "custom");
}

TEST(Reduction, CustomWithoutAFunctionIsRefused) {
  try {
    (void)Reduction::custom({.name = "mine", .combine = nullptr});
    FAIL() << "accepted";
  } catch (const InvalidArgumentError& error) {
    EXPECT_NE(std::string(error.what()).find("\"mine\""), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace kolo

#include "text/size.hpp"

#include <gtest/gtest.h>

#include "kolo/error.hpp"

namespace kolo::cli {
namespace {

using Sizes = std::vector<std::uint64_t>;

TEST(TextSizes, ListsKeepTheirOrder) {
  EXPECT_EQ(parse_sizes("8"), Sizes{8});
  EXPECT_EQ(parse_sizes("0"), Sizes{0});
  EXPECT_EQ(parse_sizes("64M,8,1K,2g"), (Sizes{64u << 20, 8, 1024, std::uint64_t{2} << 30}));
}

TEST(TextSizes, RangesMultiply) {
  EXPECT_EQ(parse_sizes("8:64"), (Sizes{8, 16, 32, 64}));
  EXPECT_EQ(parse_sizes("1K:70K:8"), (Sizes{1024, 8192, 65536}));
  EXPECT_EQ(parse_sizes("4:4:10,1M"), (Sizes{4, 1u << 20}));
}

TEST(TextSizes, MayHaveFractionsAndUnits) {
  EXPECT_EQ(parse_sizes("1.5K,64KiB,1MB"), (Sizes{1536, 65536, 1'000'000}));
  EXPECT_EQ(parse_sizes("0.5K:2K"), (Sizes{512, 1024, 2048}));
}

TEST(TextSizes, MistakesAreNamed) {
  for (const std::string text : {"", "8,", "x", "8Q", "-8", " 8", "8:", "64:8", "0:8", "8:64:1", "8:64:2:2",
                                 "99999999999999999999", "8000000000G"}) {
    EXPECT_THROW(parse_sizes(text), InvalidArgumentError) << text;
  }
  try {
    parse_sizes("8,12parsecs");
    FAIL();
  } catch (const InvalidArgumentError& error) {
    EXPECT_NE(std::string(error.what()).find("'12parsecs'"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace kolo::cli

// Arguments: the parameters after an algorithm's name.
#include <gtest/gtest.h>

#include "algorithms/algorithm.hpp"

namespace kolo {
namespace {

TEST(Arguments, ReadsNumbersListsAndNames) {
  algorithms::Arguments arguments;
  arguments.set("radix", "4");
  arguments.set("order", "0-2-1");
  arguments.set("across", "ring");
  EXPECT_EQ(arguments.number("radix", 2), 4);
  EXPECT_EQ(arguments.number("servers", 2), 2);
  EXPECT_EQ(arguments.numbers("order"), (std::vector<int>{0, 2, 1}));
  EXPECT_EQ(arguments.numbers("degrees", {3}), (std::vector<int>{3}));
  EXPECT_EQ(algorithms::text_of({0, 2, 1}), "0-2-1");
  EXPECT_EQ(arguments.word("across", "direct"), "ring");
  EXPECT_EQ(arguments.word("inside", "direct"), "direct");
  EXPECT_EQ(arguments.text(), ":across=ring:order=0-2-1:radix=4");
  EXPECT_EQ(algorithms::Arguments().text(), "");
}

TEST(Arguments, KnowsWhatAValueMayBe) {
  for (const char* good : {"1", "4", "2147483647"})
    EXPECT_EQ(algorithms::value_fault(algorithms::ParameterKind::number, good), "");
  for (const char* bad : {"", "0", "-1", "4x", "x", " 4", "2147483648", "4-2"}) {
    EXPECT_NE(algorithms::value_fault(algorithms::ParameterKind::number, bad), "") << bad;
  }
  for (const char* good : {"0", "3-0-12"})
    EXPECT_EQ(algorithms::value_fault(algorithms::ParameterKind::numbers, good), "");
  for (const char* bad : {"", "-", "1-", "-1", "1--2", "1-x", "1,2", "99999999999"}) {
    EXPECT_NE(algorithms::value_fault(algorithms::ParameterKind::numbers, bad), "") << bad;
  }
  EXPECT_EQ(algorithms::value_fault(algorithms::ParameterKind::name, "ring"), "");
  EXPECT_NE(algorithms::value_fault(algorithms::ParameterKind::name, ""), "");
}

TEST(ParseAlgorithm, ReadsANameAndItsArguments) {
  const auto plain = algorithms::parse_algorithm(schedule::Collective::all_reduce, "central");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain.value().name(), "central");
  const auto ordered = algorithms::parse_algorithm(schedule::Collective::all_reduce, "ring:order=1-0-2");
  ASSERT_TRUE(ordered.ok()) << ordered.status().message();
  EXPECT_EQ(ordered.value().algorithm->name, "ring");
  EXPECT_EQ(ordered.value().name(), "ring:order=1-0-2");
}

TEST(ParseAlgorithm, SaysWhatItCannotRead) {
  const auto why = [](std::string_view text) {
    const auto parsed = algorithms::parse_algorithm(schedule::Collective::all_reduce, text);
    return parsed.ok() ? std::string() : parsed.status().message();
  };
  EXPECT_NE(why("rnig").find("did you mean 'ring'?"), std::string::npos);
  EXPECT_NE(why("").find("has no algorithm ''"), std::string::npos);
  EXPECT_EQ(why("central:radix=4"), "all_reduce algorithm 'central' has no parameters");
  EXPECT_EQ(why("ring:oder=0-1"),
            "all_reduce algorithm 'ring' has no parameter 'oder'; it knows order; did you mean 'order'?");
  EXPECT_EQ(
      why("ring:order=x"),
      "all_reduce algorithm 'ring' cannot take 'x' as its order: it must be numbers joined by '-', as in "
      "0-2-1");
  EXPECT_NE(why("ring:order"), "");
  EXPECT_NE(why("ring:"), "ring");
}

TEST(Supports, SaysWhyNot) {
  const auto why = [](std::string_view text, int size) {
    const algorithms::ConfiguredAlgorithm one =
        algorithms::parse_algorithm(schedule::Collective::all_reduce, text).value();
    return algorithms::supports(*one.algorithm, {schedule::Collective::all_reduce, 0, size, 0, one.arguments})
        .message();
  };
  EXPECT_EQ(why("ring:order=1-0-2", 3), "");
  EXPECT_EQ(
      why("ring:order=1-0-2", 4),
      "all_reduce algorithm 'ring:order=1-0-2' needs an order that names each of the ranks 0 to 3 once");
  EXPECT_NE(why("ring:order=1-1-2", 3), "");
  EXPECT_NE(why("ring:order=1-2-3", 3), "");
  const algorithms::Algorithm& ring = *algorithms::find_algorithm(schedule::Collective::all_reduce, "ring");
  EXPECT_EQ(algorithms::supports(ring, {schedule::Collective::all_reduce, 0, 3, 0}, {.commutative = false})
                .message(),
            "all_reduce algorithm 'ring' does not combine in rank order, which a reduction that is not "
            "commutative needs");
}

}  // namespace
}  // namespace kolo

// The registry: defaults, look-up by name, and the error for a wrong name.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "algorithms/algorithm.hpp"

namespace kolo {
namespace {

TEST(Registry, HasADefaultForEveryCollective) {
  const std::map<schedule::Collective, std::string_view> defaults = {
      {schedule::Collective::all_reduce, "ring"},         {schedule::Collective::reduce_scatter, "ring"},
      {schedule::Collective::all_gather, "ring"},         {schedule::Collective::broadcast, "binomial"},
      {schedule::Collective::reduce, "binomial"},         {schedule::Collective::scatter, "direct"},
      {schedule::Collective::gather, "direct"},           {schedule::Collective::all_to_all, "direct"},
      {schedule::Collective::scan, "recursive_doubling"}, {schedule::Collective::barrier, "dissemination"}};
  std::map<schedule::Collective, std::string_view> first;
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms())
    first.emplace(algorithm.collective, algorithm.name);
  EXPECT_EQ(first, defaults);
}

TEST(Registry, IsOrderedByCollectiveAndNamesAreUnique) {
  std::set<std::pair<schedule::Collective, std::string_view>> seen;
  schedule::Collective last = schedule::Collective::all_reduce;
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
    EXPECT_GE(algorithm.collective, last);
    last = algorithm.collective;
    EXPECT_TRUE(seen.emplace(algorithm.collective, algorithm.name).second) << algorithm.name;
  }
}

TEST(Registry, HasARankOrderedAlgorithmForEveryReducingCollective) {
  for (const schedule::Collective collective :
       {schedule::Collective::all_reduce, schedule::Collective::reduce_scatter,
        schedule::Collective::reduce}) {
    bool found = false;
    for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
      found = found || (algorithm.collective == collective && algorithm.rank_ordered);
    }
    EXPECT_TRUE(found) << schedule::name_of(collective);
  }
}

TEST(Registry, FindsByCollectiveAndName) {
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
    const algorithms::Algorithm* found = algorithms::find_algorithm(algorithm.collective, algorithm.name);
    EXPECT_EQ(found, &algorithm);
    const auto required = algorithms::require_algorithm(algorithm.collective, algorithm.name);
    ASSERT_TRUE(required.ok());
    EXPECT_EQ(required.value(), &algorithm);
  }
  EXPECT_EQ(algorithms::find_algorithm(schedule::Collective::all_reduce, "dissemination"), nullptr);
  EXPECT_EQ(algorithms::find_algorithm(schedule::Collective::all_reduce, ""), nullptr);
}

TEST(Registry, TriesOnlyWhatAlgorithmsSupport) {
  const std::vector<int> alone{0, 1, 2, 3, 4, 5}, together{0, 0, 1, 1, 2, 2};
  const std::vector<int> ring{0, 1, 4, 5, 2, 3};
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
    for (const std::vector<int>& hosts : {alone, together}) {
      algorithms::ScheduleSpec spec{algorithm.collective, 0, 6, 0, {}, hosts};
      const auto expect_fit = [&](const algorithms::Arguments& arguments) {
        spec.arguments = arguments;
        const Status status = algorithms::supports(algorithm, spec);
        EXPECT_TRUE(status.ok()) << status.message();
      };
      for (const std::string_view text : algorithm.tried) {
        auto tried = algorithms::parse_algorithm(algorithm.collective,
                                                 std::string(algorithm.name) + ":" + std::string(text));
        ASSERT_TRUE(tried.ok()) << tried.status().message();
        expect_fit(tried->arguments);
      }
      if (algorithm.sparing != nullptr) {
        const auto sparing = algorithm.sparing(spec, {2});
        for (const algorithms::Arguments& arguments : sparing) expect_fit(arguments);
        EXPECT_EQ(sparing.empty(), algorithm.name == (hosts == alone ? "hierarchical" : "parameter_server"));
      }
      if (algorithm.in_order == nullptr) continue;
      spec.arguments = {};
      const algorithms::Arguments ordered = algorithm.in_order(spec, ring);
      EXPECT_NE(ordered, algorithms::Arguments());
      expect_fit(ordered);
      EXPECT_EQ(algorithm.in_order(spec, {5, 4, 3, 2, 1, 0}), ordered);  // it has an order already
    }
  }
}

TEST(Registry, NamesTheKnownAndTheNearest) {
  const auto wrong = algorithms::require_algorithm(schedule::Collective::all_reduce, "rign");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.status().code(), Code::invalid_argument);
  std::string known;
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
    if (algorithm.collective != schedule::Collective::all_reduce) continue;
    known += (known.empty() ? "" : ", ") + std::string(algorithm.name);
  }
  EXPECT_EQ(wrong.status().message(),
            "all_reduce has no algorithm 'rign'; it knows " + known + "; did you mean 'ring'?");
  EXPECT_NE(algorithms::require_algorithm(schedule::Collective::all_reduce, "centre")
                .status()
                .message()
                .find("did you mean 'central'?"),
            std::string::npos);
  EXPECT_EQ(algorithms::require_algorithm(schedule::Collective::send_recv, "ring").status().message(),
            "send_recv has no algorithms to choose from");
}

}  // namespace
}  // namespace kolo

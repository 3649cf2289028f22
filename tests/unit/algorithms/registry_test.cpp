// The registry: defaults, look-up by name, and the error for a wrong name.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "algorithms/algorithm.hpp"

namespace kolo {
namespace {

TEST(Registry, HasADefaultForEveryCollective) {
  const std::map<Collective, std::string_view> defaults = {
      {Collective::all_reduce, "ring"},      {Collective::reduce_scatter, "ring"},
      {Collective::all_gather, "ring"},      {Collective::broadcast, "binomial"},
      {Collective::reduce, "binomial"},      {Collective::scatter, "direct"},
      {Collective::gather, "direct"},        {Collective::all_to_all, "direct"},
      {Collective::barrier, "dissemination"}};
  std::map<Collective, std::string_view> first;
  for (const Algorithm& algorithm : algorithms()) first.emplace(algorithm.collective, algorithm.name);
  EXPECT_EQ(first, defaults);
}

TEST(Registry, IsOrderedByCollectiveAndNamesAreUnique) {
  std::set<std::pair<Collective, std::string_view>> seen;
  Collective last = Collective::all_reduce;
  for (const Algorithm& algorithm : algorithms()) {
    EXPECT_GE(algorithm.collective, last);
    last = algorithm.collective;
    EXPECT_TRUE(seen.emplace(algorithm.collective, algorithm.name).second) << algorithm.name;
  }
}

TEST(Registry, HasARankOrderedAlgorithmForEveryReducingCollective) {
  for (const Collective collective :
       {Collective::all_reduce, Collective::reduce_scatter, Collective::reduce}) {
    bool found = false;
    for (const Algorithm& algorithm : algorithms()) {
      found = found || (algorithm.collective == collective && algorithm.rank_ordered);
    }
    EXPECT_TRUE(found) << name_of(collective);
  }
}

TEST(Registry, FindsByCollectiveAndName) {
  for (const Algorithm& algorithm : algorithms()) {
    const Algorithm* found = find_algorithm(algorithm.collective, algorithm.name);
    EXPECT_EQ(found, &algorithm);
    const auto required = require_algorithm(algorithm.collective, algorithm.name);
    ASSERT_TRUE(required.ok());
    EXPECT_EQ(required.value(), &algorithm);
  }
  EXPECT_EQ(find_algorithm(Collective::all_reduce, "dissemination"), nullptr);
  EXPECT_EQ(find_algorithm(Collective::all_reduce, ""), nullptr);
}

TEST(Registry, TriesOnlyWhatAlgorithmsSupport) {
  const std::vector<int> alone{0, 1, 2, 3, 4, 5}, together{0, 0, 1, 1, 2, 2};
  const std::vector<int> ring{0, 1, 4, 5, 2, 3};
  for (const Algorithm& algorithm : algorithms()) {
    for (const std::vector<int>& hosts : {alone, together}) {
      ScheduleSpec spec{algorithm.collective, 0, 6, 0, {}, hosts};
      const auto expect_fit = [&](const Arguments& arguments) {
        spec.arguments = arguments;
        const Status status = supports(algorithm, spec);
        EXPECT_TRUE(status.ok()) << status.message();
      };
      for (const std::string_view text : algorithm.tried) {
        auto tried =
            parse_algorithm(algorithm.collective, std::string(algorithm.name) + ":" + std::string(text));
        ASSERT_TRUE(tried.ok()) << tried.status().message();
        expect_fit(tried->arguments);
      }
      if (algorithm.sparing != nullptr) {
        const auto sparing = algorithm.sparing(spec, {2});
        for (const Arguments& arguments : sparing) expect_fit(arguments);
        EXPECT_EQ(sparing.empty(), algorithm.name == (hosts == alone ? "hierarchical" : "parameter_server"));
      }
      if (algorithm.in_order == nullptr) continue;
      spec.arguments = {};
      const Arguments ordered = algorithm.in_order(spec, ring);
      EXPECT_NE(ordered, Arguments());
      expect_fit(ordered);
      EXPECT_EQ(algorithm.in_order(spec, {5, 4, 3, 2, 1, 0}), ordered);  // it has an order already
    }
  }
}

TEST(Registry, NamesTheKnownAndTheNearest) {
  const auto wrong = require_algorithm(Collective::all_reduce, "rign");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.status().code(), Code::invalid_argument);
  std::string known;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != Collective::all_reduce) continue;
    known += (known.empty() ? "" : ", ") + std::string(algorithm.name);
  }
  EXPECT_EQ(wrong.status().message(),
            "all_reduce has no algorithm 'rign'; it knows " + known + "; nearest is 'ring'");
  EXPECT_NE(
      require_algorithm(Collective::all_reduce, "centre").status().message().find("nearest is 'central'"),
      std::string::npos);
  EXPECT_EQ(require_algorithm(Collective::send_recv, "ring").status().message(),
            "send_recv has no algorithms to choose from");
}

}  // namespace
}  // namespace kolo

// Phases: what each step of an algorithm is for, found from its messages alone.
#include "draw/phases.hpp"

#include <gtest/gtest.h>

#include <string>

#include "draw/picture.hpp"

namespace kolo::draw {
namespace {

using schedule::Collective;

/// "reduce-scatter 3, all-gather 3": the phases with the number of steps in each.
std::string phases(Collective collective, std::string_view name, int size, std::vector<int> hosts = {}) {
  const algorithms::ConfiguredAlgorithm configured =
      algorithms::parse_algorithm(collective, name).value_or_throw();
  const Picture picture =
      make_picture(configured, {collective, 0, size, 0, configured.arguments, std::move(hosts)})
          .value_or_throw();
  std::string text;
  for (const Run& run : picture.runs) {
    text += (text.empty() ? "" : ", ") + in_words(run.phases) + " " + std::to_string(run.end - run.begin);
  }
  return text;
}

TEST(Phases, OfAlgorithmsThatDivideTheData) {
  for (const char* name : {"ring", "direct", "bidirectional_ring"}) {
    EXPECT_EQ(phases(Collective::all_reduce, name, 6), "reduce-scatter 5, all-gather 5") << name;
  }
  for (const char* name : {"circulant", "butterfly", "halving_doubling", "binary_blocks"}) {
    EXPECT_EQ(phases(Collective::all_reduce, name, 8), "reduce-scatter 3, all-gather 3") << name;
  }
  EXPECT_EQ(phases(Collective::all_reduce, "ring", 2), "reduce-scatter 1, all-gather 1");
  EXPECT_EQ(phases(Collective::all_reduce, "torus", 8), "reduce-scatter 4, all-gather 4");
  EXPECT_EQ(phases(Collective::all_reduce, "parameter_server", 8), "reduce-scatter 7, all-gather 7");
  EXPECT_EQ(phases(Collective::reduce_scatter, "circulant", 5), "reduce-scatter 3");
  EXPECT_EQ(phases(Collective::all_gather, "ring", 5), "all-gather 4");
}

TEST(Phases, OfTrees) {
  EXPECT_EQ(phases(Collective::all_reduce, "central", 5), "reduce 4, broadcast 4");
  EXPECT_EQ(phases(Collective::all_reduce, "binomial", 8), "reduce 3, broadcast 3");
  EXPECT_EQ(phases(Collective::all_reduce, "double_tree", 8),
            "reduce 10, reduce and broadcast 1, broadcast 10");
  EXPECT_EQ(phases(Collective::reduce, "k_nomial", 8), "reduce 4");
  EXPECT_EQ(phases(Collective::broadcast, "chain", 4), "broadcast 6");
  EXPECT_EQ(phases(Collective::barrier, "tree", 8), "arrive 3, release 3");
}

TEST(Phases, OfRanksThatDoNotFitAPowerOfTwo) {
  EXPECT_EQ(phases(Collective::all_reduce, "recursive_doubling", 8), "exchange 3");
  EXPECT_EQ(phases(Collective::all_reduce, "recursive_doubling", 6),
            "fold and exchange 1, exchange 2, unfold 1");
  EXPECT_EQ(phases(Collective::all_reduce, "halving_doubling", 6),
            "fold and reduce-scatter 1, reduce-scatter 2, all-gather 2, unfold 1");
  EXPECT_EQ(phases(Collective::barrier, "recursive_doubling", 6),
            "fold and exchange 1, exchange 2, unfold 1");
  EXPECT_EQ(phases(Collective::all_reduce, "naive", 5), "exchange 4");
}

TEST(Phases, InsideHostsAndAcross) {
  EXPECT_EQ(phases(Collective::all_reduce, "hierarchical", 8, {0, 0, 0, 1, 1, 2, 2, 2}),
            "reduce 2, reduce-scatter 2, all-gather 2, broadcast 2");
}

TEST(Phases, OfABroadcastThatScattersFirst) {
  EXPECT_EQ(phases(Collective::broadcast, "scatter_all_gather", 8), "scatter 3, all-gather 7");
}

TEST(Phases, EveryStepHasOne) {
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
    for (const int size : {2, 3, 5, 8}) {
      const auto picture = make_picture({&algorithm, {}}, {algorithm.collective, 0, size, size - 1, {}, {}});
      if (!picture.ok()) continue;
      std::size_t steps = 0;
      for (const auto& run : picture.value().runs) {
        steps += run.end - run.begin;
        ASSERT_FALSE(run.phases.empty()) << algorithm.name;
        for (const Phase phase : run.phases) {
          EXPECT_NE(phase, Phase::none) << algorithm.name << ", " << size;
          EXPECT_FALSE(name_of(phase).empty());
          EXPECT_TRUE(meaning_of(phase).ends_with('.'));
        }
      }
      EXPECT_EQ(steps, picture.value().frames.steps()) << algorithm.name;
    }
  }
}

}  // namespace
}  // namespace kolo::draw

#include "base/similar.hpp"

#include <gtest/gtest.h>

#include <array>

namespace kolo {
namespace {

using Names = std::vector<std::string_view>;

constexpr std::array<std::string_view, 7> kKnown = {
    "ring",    "bidirectional_ring", "recursive_doubling", "halving_doubling", "all_reduce", "reduce",
    "k_nomial"};

TEST(Similar, CaseAndSeparatorsDoNotMatter) {
  EXPECT_EQ(similar_names("allreduce", kKnown), Names{"all_reduce"});
  EXPECT_EQ(similar_names("All-Reduce", kKnown), Names{"all_reduce"});
  EXPECT_EQ(similar_names("RING", kKnown), Names{"ring"})
      << "an equal name comes before one that contains it";
}

TEST(Similar, APartOfANameStandsForTheNamesThatHaveIt) {
  EXPECT_EQ(similar_names("doubling", kKnown), (Names{"recursive_doubling", "halving_doubling"}));
  EXPECT_EQ(similar_names("ring_allreduce", kKnown), (Names{"ring", "all_reduce", "reduce"}))
      << "and a name for its parts";
}

TEST(Similar, FewWrongLettersAreForgiven) {
  EXPECT_EQ(similar_names("rnig", kKnown), Names{"ring"}) << "two swapped letters are one mistake";
  EXPECT_EQ(similar_names("all_redcue", kKnown), Names{"all_reduce"});
  EXPECT_EQ(similar_names("doublng", kKnown), (Names{"recursive_doubling", "halving_doubling"}))
      << "also within a part";
}

TEST(Similar, NothingIsSuggestedForOtherNames) {
  for (const std::string_view name : {"", "x", "ab", "butterfly", "bruck", "tree"})
    EXPECT_EQ(similar_names(name, kKnown), Names{}) << name;
  EXPECT_EQ(did_you_mean("bruck", kKnown), "");
  EXPECT_EQ(similar_names("ring", {}), Names{});
}

TEST(Similar, TheSentenceHasAtMostThreeNames) {
  EXPECT_EQ(did_you_mean("rign", kKnown), "; did you mean 'ring'?");
  EXPECT_EQ(did_you_mean("rign", std::vector<std::string>{"tree", "ring"}), "; did you mean 'ring'?");
  EXPECT_EQ(did_you_mean("doubling", kKnown), "; did you mean 'recursive_doubling' or 'halving_doubling'?");
  constexpr std::array<std::string_view, 4> kTrees = {"tree_a", "tree_b", "tree_c", "tree_d"};
  EXPECT_EQ(did_you_mean("tree", kTrees), "; did you mean 'tree_a', 'tree_b' or 'tree_c'?");
}

}  // namespace
}  // namespace kolo

// Layout: the shape found from the messages of an algorithm.
#include "draw/layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "draw/cards.hpp"
#include "draw/picture.hpp"
#include "draw/words.hpp"

namespace kolo::draw {
namespace {

/// Frames in which exactly the pairs named exchange messages, in one step.
Frames frames_with(int ranks, const std::vector<std::pair<int, int>>& pairs) {
  Frames frames;
  frames.parts = 1;
  frames.frames.resize(2);
  for (Frame& frame : frames.frames) frame.cells.resize(static_cast<std::size_t>(ranks));
  for (const auto& [one, other] : pairs) frames.frames[1].messages.push_back({one, other, false, {}});
  return frames;
}

std::string shape(int ranks, const std::vector<std::pair<int, int>>& pairs,
                  const std::vector<int>& hosts = {}) {
  return layout_of(frames_with(ranks, pairs), hosts, -1).name;
}

TEST(Layout, IsFoundFromTheMessages) {
  EXPECT_EQ(shape(1, {}), "circle");
  EXPECT_EQ(shape(4, {{0, 1}, {1, 2}, {2, 3}, {3, 0}}), "ring");
  EXPECT_EQ(shape(4, {{0, 2}, {2, 1}, {1, 3}}), "ring") << "a chain";
  EXPECT_EQ(shape(5, {{1, 0}, {2, 0}, {3, 0}, {4, 0}}), "star");
  EXPECT_EQ(shape(6, {{1, 0}, {2, 0}, {3, 1}, {4, 1}, {5, 1}}), "tree");
  EXPECT_EQ(shape(4, {{0, 1}, {2, 3}}), "circle") << "two that never meet";
  std::vector<std::pair<int, int>> cube, torus, all;
  for (int rank = 0; rank < 8; ++rank) {
    for (int bit = 1; bit < 8; bit *= 2) cube.emplace_back(rank, rank ^ bit);
    for (int other = 0; other < rank; ++other) all.emplace_back(rank, other);
  }
  for (int rank = 0; rank < 12; ++rank) {
    torus.emplace_back(rank, rank / 4 * 4 + (rank + 1) % 4);
    torus.emplace_back(rank, (rank + 4) % 12);
  }
  EXPECT_EQ(shape(8, cube), "hypercube");
  EXPECT_EQ(shape(12, torus), "grid");
  EXPECT_EQ(shape(8, all), "circle");
  EXPECT_EQ(shape(8, all, {0, 0, 0, 1, 1, 2, 2, 2}), "hosts");
  EXPECT_EQ(shape(4, {{0, 1}, {1, 2}, {2, 3}, {3, 0}}, {0, 0, 0, 0}), "ring") << "one host is no division";
}

TEST(Layout, FollowsTheOrderOfARing) {
  const Layout ring = layout_of(frames_with(4, {{0, 2}, {2, 1}, {1, 3}, {3, 0}}), {}, -1);
  EXPECT_NEAR(ring.places[2].x, 1, 1e-9);  // after rank 0 on top, clockwise
  EXPECT_NEAR(ring.places[1].y, 1, 1e-9);
  EXPECT_NEAR(ring.places[3].x, 0, 1e-9);
}

TEST(Layout, ShowsBothOfTwoTrees) {
  for (const int size : {3, 4, 7, 8, 16, 31}) {
    const algorithms::Algorithm* double_tree =
        algorithms::find_algorithm(schedule::Collective::all_reduce, "double_tree");
    const Picture picture =
        make_picture({double_tree, {}}, {schedule::Collective::all_reduce, 0, size, 0, {}, {}})
            .value_or_throw();
    const Layout& layout = picture.layout;
    ASSERT_EQ(layout.name, "two trees") << size;
    EXPECT_EQ(layout.trees, (std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1}));
    std::vector<int> children[2] = {std::vector<int>(layout.places.size()),
                                    std::vector<int>(layout.places.size())};
    for (const Link& link : layout.links) {
      const auto one = static_cast<std::size_t>(link.one);
      const auto other = static_cast<std::size_t>(link.other);
      // The first tree's root is on top, so parents are above their children; the second tree is upside down.
      const bool one_is_parent = (layout.places[one].y < layout.places[other].y) == (link.tree == 0);
      ++children[link.tree][one_is_parent ? one : other];
      EXPECT_NE(layout.places[one].y, layout.places[other].y);
    }
    EXPECT_EQ(layout.links.size(), 2 * (layout.places.size() - 1));
    for (std::size_t rank = 0; rank < layout.places.size(); ++rank) {
      EXPECT_LE(children[0][rank], 2) << size << " ranks: " << rank;
      EXPECT_LE(children[1][rank], 2) << size << " ranks: " << rank;
      EXPECT_TRUE(children[0][rank] == 0 || children[1][rank] == 0) << size << " ranks: " << rank;
    }
  }
}

TEST(Layout, PutsManyRanksOfARingAroundARectangle) {
  std::vector<std::pair<int, int>> pairs;
  for (int rank = 0; rank < 63; ++rank) pairs.emplace_back(rank, (rank + 1) % 63);
  const Layout ring = layout_of(frames_with(63, pairs), {}, -1);
  ASSERT_EQ(ring.name, "ring");
  for (std::size_t rank = 0; rank < 63; ++rank) {
    const Point& here = ring.places[rank];
    const Point& next = ring.places[(rank + 1) % 63];
    EXPECT_TRUE(here.x == 0 || here.x == 1 || here.y == 0 || here.y == 1) << rank;
    EXPECT_LT(std::abs(next.x - here.x) + std::abs(next.y - here.y), 0.1) << rank;
  }
}

TEST(Layout, PutsMostEdgesOfACubeBetweenAdjacentRanks) {
  std::vector<std::pair<int, int>> cube;
  for (int rank = 0; rank < 16; ++rank) {
    for (int bit = 1; bit < 16; bit *= 2) cube.emplace_back(rank, rank ^ bit);
  }
  const Layout layout = layout_of(frames_with(16, cube), {}, -1);
  ASSERT_EQ(layout.name, "hypercube");
  std::size_t adjacent = 0;
  for (const Link& link : layout.links) {
    const Point& one = layout.places[static_cast<std::size_t>(link.one)];
    const Point& other = layout.places[static_cast<std::size_t>(link.other)];
    EXPECT_TRUE(one.x == other.x || one.y == other.y);
    adjacent += std::hypot(one.x - other.x, one.y - other.y) < 0.4;
  }
  EXPECT_EQ(layout.links.size(), 32u);
  EXPECT_EQ(adjacent, 24u);
}

TEST(Layout, GivesEachCardItsOwnPlaceOnTheBoard) {
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
    for (const int size : {1, 2, 3, 5, 8, 16, 32, 64}) {
      const algorithms::ScheduleSpec spec{algorithm.collective, 0, size, 0, {}, {}};
      const auto picture = make_picture({&algorithm, {}}, spec);
      if (!picture.ok()) continue;
      const std::vector<Card> cards = place_cards(picture.value(), 300, 250, 11);
      for (std::size_t i = 0; i < cards.size(); ++i) {
        EXPECT_GE(cards[i].width, 4) << algorithm.name << ", " << size;
        EXPECT_GE(std::min(cards[i].low.x, cards[i].low.y), -1e-6);
        EXPECT_LE(cards[i].low.x + cards[i].width, 300 + 1e-6);
        EXPECT_LE(cards[i].low.y + cards[i].height, 250 + 1e-6);
        for (std::size_t j = 0; j < i && size <= 32; ++j) {
          const bool apart = std::abs(cards[i].low.x - cards[j].low.x) >= cards[i].width ||
                             std::abs(cards[i].low.y - cards[j].low.y) >= cards[i].height;
          EXPECT_TRUE(apart) << algorithm.name << ", " << size << " ranks: " << i << " and " << j;
        }
      }
    }
  }
}

TEST(Words, AreShort) {
  EXPECT_EQ(ranks_in_words({}), "");
  EXPECT_EQ(ranks_in_words({3}), "rank 3");
  EXPECT_EQ(ranks_in_words({0, 1, 2, 5}), "ranks 0 to 2, 5");
  EXPECT_EQ(ranks_in_words({0, 1, 5, 6}), "ranks 0, 1, 5, 6");
  const algorithms::Algorithm* ring = algorithms::find_algorithm(schedule::Collective::all_reduce, "ring");
  const Picture picture =
      make_picture({ring, {}}, {schedule::Collective::all_reduce, 0, 3, 0, {}, {}}).value_or_throw();
  EXPECT_EQ(message_in_words(picture, picture.frames.frames[1].messages[0]),
            "rank 0 sends chunk 2 to rank 1, which adds it to its own");
  EXPECT_EQ(step_in_words(picture, 3),
            "3 messages of 1 chunk, each to the next rank. 6 of 9 results are complete.");
}

}  // namespace
}  // namespace kolo::draw

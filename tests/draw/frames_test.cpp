// Frames: the values that ranks hold after each step, compared with values worked out by hand.
#include "draw/frames.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "catalog/request.hpp"
#include "draw/words.hpp"

namespace kolo::draw {
namespace {

Frames frames_of(schedule::Collective collective, std::string_view name, int size, int root = 0) {
  const algorithms::ConfiguredAlgorithm configured =
      algorithms::parse_algorithm(collective, name).value_or_throw();
  return play(
      algorithms::generate_all(*configured.algorithm, {collective, 0, size, root, configured.arguments, {}}));
}

/// "0 01* 2": the contributors of each part, '|' between values that are not summed, '*' after a complete
/// result.
std::string row(const Frames& frames, std::size_t step, std::size_t rank) {
  std::string text;
  for (const Cell& cell : frames.frames[step].cells[rank]) {
    text += text.empty() ? "" : " ";
    for (std::size_t s = 0; s < cell.sets.size(); ++s) {
      text += s > 0 ? "|" : "";
      for (const int who : frames.sets[cell.sets[s]]) text += std::to_string(who);
    }
    text += cell.sets.empty() ? "-" : "";
    text += cell.done ? "*" : "";
  }
  return text;
}

std::string messages(const Frames& frames, std::size_t step) {
  std::string text;
  for (const Message& message : frames.frames[step].messages) {
    text += text.empty() ? "" : ", ";
    text += std::to_string(message.from) + ">" + std::to_string(message.to) + (message.reduces ? "+" : "=");
    for (const Value& value : message.values) {
      text += " " + std::to_string(value.part) + ":";
      for (const int who : frames.sets[value.set]) text += std::to_string(who);
    }
  }
  return text;
}

TEST(Frames, FollowTheRingOfThreeRanks) {
  const Frames ring = frames_of(schedule::Collective::all_reduce, "ring", 3);
  ASSERT_EQ(ring.steps(), 4u);
  EXPECT_EQ(messages(ring, 0), "");
  EXPECT_EQ(row(ring, 0, 0), "0 0 0");
  EXPECT_EQ(row(ring, 0, 2), "2 2 2");
  EXPECT_EQ(messages(ring, 1), "0>1+ 2:0, 1>2+ 0:1, 2>0+ 1:2");
  EXPECT_EQ(row(ring, 1, 0), "0 02 0");
  EXPECT_EQ(row(ring, 1, 1), "1 1 01");
  EXPECT_EQ(row(ring, 1, 2), "12 2 2");
  EXPECT_EQ(messages(ring, 2), "0>1+ 1:02, 1>2+ 2:01, 2>0+ 0:12");
  EXPECT_EQ(row(ring, 2, 0), "012* 02 0");
  EXPECT_EQ(row(ring, 2, 1), "1 012* 01");
  EXPECT_EQ(row(ring, 2, 2), "12 2 012*");
  EXPECT_EQ(messages(ring, 3), "0>1= 0:012, 1>2= 1:012, 2>0= 2:012");
  EXPECT_EQ(row(ring, 3, 0), "012* 02 012*");
  EXPECT_EQ(row(ring, 4, 0), "012* 012* 012*");
  EXPECT_EQ(ring.frames[4].moved.sent, 4u);
  EXPECT_EQ(ring.frames[4].moved.received, 4u);
  EXPECT_EQ(ring.frames[2].moved.link, 2u);
}

TEST(Frames, FollowTheTreeUpToTheRoot) {
  const Frames tree = frames_of(schedule::Collective::reduce, "binomial", 4, 1);
  ASSERT_EQ(tree.steps(), 2u);
  // Ranks 2 and 3 are children of the root, rank 0 is a child of rank 3.
  EXPECT_EQ(messages(tree, 1), "0>3+ 0:0, 2>1+ 0:2");
  EXPECT_EQ(row(tree, 1, 1), "12");
  EXPECT_EQ(row(tree, 1, 3), "03");
  EXPECT_EQ(messages(tree, 2), "3>1+ 0:03");
  EXPECT_EQ(row(tree, 2, 1), "0123*");
  EXPECT_EQ(row(tree, 2, 3), "03");
  EXPECT_TRUE(tree.results[1][0]);
  EXPECT_FALSE(tree.results[0][0]);
  EXPECT_EQ(progress_after(tree, 2).all, 1u);
}

TEST(Frames, KeepApartWhatIsNotSummed) {
  const Frames exchange = frames_of(schedule::Collective::all_to_all, "direct", 3);
  EXPECT_EQ(row(exchange, 0, 0), "0 0 0");
  EXPECT_EQ(row(exchange, exchange.steps(), 0), "0|1|2* 0 0");
  EXPECT_EQ(progress_after(exchange, exchange.steps()).all, 3u);
}

TEST(Frames, TellWhoseDataThereIs) {
  const Frames gather = frames_of(schedule::Collective::all_gather, "ring", 3);
  EXPECT_EQ(row(gather, 0, 1), "- 1* -");
  EXPECT_EQ(row(gather, 1, 1), "0* 1* -");
  EXPECT_EQ(row(gather, 2, 1), "0* 1* 2*");
  const Frames scatter = frames_of(schedule::Collective::scatter, "direct", 3, 2);
  EXPECT_EQ(row(scatter, 0, 2), "2 2 2*");
  EXPECT_EQ(row(scatter, 2, 0), "2* - -");
}

TEST(Frames, TellWhoHasComeToABarrier) {
  const Frames barrier = frames_of(schedule::Collective::barrier, "dissemination", 4);
  ASSERT_EQ(barrier.steps(), 2u);
  EXPECT_EQ(row(barrier, 0, 0), "0");
  EXPECT_EQ(row(barrier, 1, 0), "03");
  EXPECT_EQ(row(barrier, 2, 0), "0123*");
  EXPECT_EQ(barrier.frames[2].moved.sent, 0u);
}

TEST(Frames, EndWithEveryResultAndTheCountedCost) {
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
    for (const int size : {1, 2, 3, 5, 8}) {
      const algorithms::ScheduleSpec spec{algorithm.collective, 0, size, size / 2, {}, {}};
      if (!algorithms::supports(algorithm, spec).ok()) continue;
      const auto picture = make_picture({&algorithm, {}}, spec);
      ASSERT_TRUE(picture.ok()) << algorithm.name << ": " << picture.status().message();
      const Frames& frames = picture.value().frames;
      const Progress end = progress_after(frames, frames.steps());
      EXPECT_EQ(end.done, end.all) << schedule::name_of(algorithm.collective) << " " << algorithm.name << ", "
                                   << size;
      EXPECT_GT(end.all, 0u);
      if (size > 1) {
        EXPECT_LT(progress_after(frames, 0).done, end.all) << algorithm.name;
      }
      // The bound is a lower bound, so no algorithm may be below it.
      const Moved& moved = frames.frames.back().moved;
      EXPECT_GE(frames.steps(), picture.value().least.steps) << algorithm.name;
      EXPECT_GE(static_cast<double>(std::max(moved.sent, moved.received)) + 1e-9,
                picture.value().least.through_of_whole * frames.parts)
          << schedule::name_of(algorithm.collective) << " " << algorithm.name << ", " << size;
    }
  }
}

}  // namespace
}  // namespace kolo::draw

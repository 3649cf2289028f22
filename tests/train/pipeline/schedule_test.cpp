// Schedules of pipelines: complete, in an order that cannot block, with the bubble that the formulas say.
#include "pipeline/schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "kolo/error.hpp"

namespace kolo::test::pipeline {
namespace {

using train::Action;
using train::BorderMessage;
using train::MessagePlan;
using train::PipelineShape;
using train::require_shape;

std::string problem_of_shape(const PipelineShape& shape) {
  return problem_of([&] { require_shape(shape); });
}

std::vector<PipelineShape> shapes() {
  std::vector<PipelineShape> result;
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (const int micro_batches : {1, 2, 3, 4, 7, 8, 12, 16, 24, 32}) {
      result.push_back({PipelineSchedule::gpipe, ranks, micro_batches, 1});
      result.push_back({PipelineSchedule::one_forward_one_backward, ranks, micro_batches, 1});
      if (micro_batches % ranks != 0) continue;
      for (int chunks = 1; chunks <= 4; ++chunks)
        result.push_back({PipelineSchedule::interleaved, ranks, micro_batches, chunks});
    }
  }
  return result;
}

std::string name_of(const PipelineShape& shape) {
  return pipeline_schedule_names()[static_cast<std::size_t>(shape.schedule)] + ", " +
         std::to_string(shape.ranks) + " ranks, " + std::to_string(shape.micro_batches) + " micro-batches, " +
         std::to_string(shape.chunks) + " chunks";
}

int most_held(const std::vector<Action>& actions) {
  int held = 0, most = 0;
  for (const Action& action : actions) {
    held += action.is_forward ? 1 : -1;
    most = std::max(most, held);
  }
  return most;
}

/// Plays all ranks: an action takes `forward` or `backward` (for all of a rank's chunks together), begins
/// when what it needs has been computed, and waits for it. Returns when the last one ends; negative: some
/// wait for ever.
double play(const PipelineShape& shape, double forward, double backward) {
  struct Rank {
    MessagePlan plan;
    std::size_t next = 0;
    double time = 0;
  };
  std::vector<Rank> ranks;
  for (int rank = 0; rank < shape.ranks; ++rank) ranks.push_back({MessagePlan(shape, rank, true)});
  std::map<BorderMessage, double> sent;
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (Rank& rank : ranks) {
      for (; rank.next < rank.plan.actions.size(); ++rank.next) {
        const Action& action = rank.plan.actions[rank.next];
        if (const auto needed = rank.plan.needed_by(action)) {
          const auto found = sent.find(*needed);
          if (found == sent.end()) break;
          rank.time = std::max(rank.time, found->second);
        }
        rank.time += (action.is_forward ? forward : backward) / shape.chunks;
        if (const auto message = rank.plan.sent_by(action)) sent.emplace(*message, rank.time);
        goes_on = true;
      }
    }
  }
  double end = 0;
  for (const Rank& rank : ranks) {
    if (rank.next < rank.plan.actions.size()) return -1;
    end = std::max(end, rank.time);
  }
  return end;
}

TEST(PipelineSchedules, EveryRankRunsEachForwardOnceAndThenItsBackward) {
  for (const PipelineShape& shape : shapes()) {
    ASSERT_EQ(problem_of_shape(shape), "") << name_of(shape);
    for (int rank = 0; rank < shape.ranks; ++rank) {
      std::set<std::pair<int, int>> forwards, backwards;
      for (const Action& action : actions_of(shape, rank)) {
        const std::pair what(action.chunk, action.micro_batch);
        ASSERT_TRUE(action.chunk >= 0 && action.chunk < shape.chunks && action.micro_batch >= 0 &&
                    action.micro_batch < shape.micro_batches)
            << name_of(shape);
        ASSERT_TRUE(action.is_forward || forwards.contains(what)) << name_of(shape);
        ASSERT_TRUE((action.is_forward ? forwards : backwards).insert(what).second) << name_of(shape);
      }
      ASSERT_EQ(forwards.size(), static_cast<std::size_t>(shape.chunks * shape.micro_batches));
      ASSERT_EQ(backwards, forwards) << name_of(shape);
    }
  }
}

TEST(PipelineSchedules, NoRankWaitsForEverAndTheBubbleIsThatOfTheFormula) {
  for (const PipelineShape& shape : shapes()) {
    for (const auto& [forward, backward] : {std::pair(1.0, 2.0), {3.0, 1.0}, {1.0, 1.0}}) {
      const double end = play(shape, forward, backward);
      ASSERT_GT(end, 0) << name_of(shape) << " blocks";
      const double computing = shape.micro_batches * (forward + backward);
      const double p = shape.ranks, m = shape.micro_batches, v = shape.chunks;
      EXPECT_NEAR(1 - computing / end, (p - 1) / (v * m + p - 1), 1e-9) << name_of(shape);
    }
  }
}

TEST(PipelineSchedules, ARankHoldsAsManyMicroBatchesAsDocumented) {
  for (const PipelineShape& shape : shapes()) {
    for (int rank = 0; rank < shape.ranks; ++rank) {
      const int all = shape.micro_batches * shape.chunks;
      int expected = all;
      if (shape.schedule == PipelineSchedule::one_forward_one_backward)
        expected = std::min(all, shape.ranks - rank);
      if (shape.schedule == PipelineSchedule::interleaved)
        expected = std::min(all, 2 * (shape.ranks - rank - 1) + (shape.chunks - 1) * shape.ranks + 1);
      EXPECT_EQ(most_held(actions_of(shape, rank)), expected) << name_of(shape) << ", rank " << rank;
    }
  }
}

TEST(PipelineSchedules, BothSidesOfALinkHaveOneOrderOfMessages) {
  for (const PipelineShape& shape : shapes()) {
    for (int sender = 0; sender < shape.ranks; ++sender) {
      const MessagePlan plan(shape, sender, true);
      std::map<int, std::vector<BorderMessage>> sent;
      for (const Action& action : plan.actions) {
        const auto message = plan.sent_by(action);
        if (message && plan.target_of(*message) != sender) sent[plan.target_of(*message)].push_back(*message);
      }
      for (int receiver = 0; receiver < shape.ranks; ++receiver) {
        const MessagePlan other(shape, receiver, true);
        EXPECT_EQ(other.incoming[static_cast<std::size_t>(sender)], sent[receiver]) << name_of(shape);
      }
    }
  }
}

TEST(PipelineSchedules, ReceivesArePostedAheadAndBeforeTheyAreNeeded) {
  for (const PipelineShape& shape : shapes()) {
    for (int rank = 0; rank < shape.ranks; ++rank) {
      const MessagePlan plan(shape, rank, true);
      for (std::size_t i = 0; i < plan.actions.size(); ++i) {
        for (std::size_t j = i; j < std::min(plan.actions.size(), i + MessagePlan::kAhead + 1); ++j) {
          const auto needed = plan.needed_by(plan.actions[j]);
          if (!needed || plan.source_of(*needed) == rank) continue;
          const auto peer = static_cast<std::size_t>(plan.source_of(*needed));
          const auto& incoming = plan.incoming[peer];
          const auto place = std::ranges::find(incoming, *needed) - incoming.begin();
          ASSERT_LT(static_cast<std::size_t>(place), plan.posted[i][peer]) << name_of(shape);
        }
      }
      for (std::size_t peer = 0; peer < plan.incoming.size(); ++peer)
        EXPECT_EQ(plan.posted.back()[peer], plan.incoming[peer].size()) << name_of(shape);
    }
  }
}

TEST(PipelineSchedules, ShapesThatCannotBeAreRefused) {
  using enum PipelineSchedule;
  EXPECT_NE(problem_of_shape({gpipe, 2, 0, 1}).find("0 micro-batches"), std::string::npos);
  EXPECT_NE(problem_of_shape({one_forward_one_backward, 2, 2, 2}).find("interleaved"), std::string::npos);
  EXPECT_NE(problem_of_shape({interleaved, 2, 2, 0}).find("0 chunks"), std::string::npos);
  EXPECT_NE(problem_of_shape({interleaved, 4, 6, 2}).find("6 is no multiple"), std::string::npos);
  for (const std::string& name : pipeline_schedule_names())
    EXPECT_EQ(pipeline_schedule_names()[static_cast<std::size_t>(parse_pipeline_schedule(name))], name);
  EXPECT_THROW(parse_pipeline_schedule("waterfall"), InvalidArgumentError);
}

}  // namespace
}  // namespace kolo::test::pipeline

// The builder: the dependencies that it derives, and the printer that shows them.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "schedule/builder.hpp"
#include "schedule/printer.hpp"

namespace kolo {
namespace {

using Ids = std::vector<std::uint32_t>;

Ids waits(const schedule::Schedule& schedule, std::uint32_t step) {
  const auto list = schedule.dependencies_of(schedule.steps[step]);
  return {list.begin(), list.end()};
}

schedule::ScheduleBuilder all_reduce(std::uint32_t scratch_chunks = 4) {
  return schedule::ScheduleBuilder(schedule::Collective::all_reduce, 0, 4, 0, 4, scratch_chunks);
}

TEST(Builder, WaitsForTheWriterOfWhatIsRead) {
  schedule::ScheduleBuilder builder = all_reduce();
  builder.recv(1, schedule::output(0));
  builder.recv(1, schedule::output(1));
  builder.send(2, schedule::output(1));
  const schedule::Schedule schedule = std::move(builder).finish();
  EXPECT_EQ(waits(schedule, 1), Ids{});
  EXPECT_EQ(waits(schedule, 2), Ids{1});
}

TEST(Builder, WaitsForAllReadersOfWhatIsWritten) {
  schedule::ScheduleBuilder builder = all_reduce();
  builder.recv(1, schedule::scratch(0, schedule::input(0)));
  builder.send(2, schedule::scratch(0, schedule::input(0)));
  builder.send(3, schedule::scratch(0, schedule::input(0)));
  builder.recv(1, schedule::scratch(0, schedule::input(0)));
  const schedule::Schedule schedule = std::move(builder).finish();
  EXPECT_EQ(waits(schedule, 1), Ids{0});
  EXPECT_EQ(waits(schedule, 2), Ids{0});
  EXPECT_EQ(waits(schedule, 3), (Ids{1, 2}));  // 0 follows from either
}

TEST(Builder, WaitsForTheWriterOfWhatIsWrittenUnread) {
  schedule::ScheduleBuilder builder = all_reduce();
  builder.recv(1, schedule::output(0));
  builder.recv(2, schedule::output(0));
  EXPECT_EQ(waits(std::move(builder).finish(), 1), Ids{0});
}

TEST(Builder, TakesInputAndOutputAsOneMemory) {
  schedule::ScheduleBuilder builder = all_reduce();
  builder.send(1, schedule::input(2));
  builder.recv(1, schedule::output(2));
  builder.recv(1, schedule::output(3));
  const schedule::Schedule schedule = std::move(builder).finish();
  EXPECT_EQ(waits(schedule, 1), Ids{0});
  EXPECT_EQ(waits(schedule, 2), Ids{});
}

TEST(Builder, TakesThemAsTwoWhereItIsToldSo) {
  schedule::ScheduleBuilder builder(schedule::Collective::all_to_all, 0, 4, 0, 4);
  builder.require_out_of_place();
  builder.send(1, schedule::input(1));
  builder.recv(1, schedule::output(1));
  const schedule::Schedule schedule = std::move(builder).finish();
  EXPECT_TRUE(schedule.out_of_place_only);
  EXPECT_EQ(waits(schedule, 1), Ids{});
}

TEST(Builder, KnowsThatACopyOntoItselfIsNothing) {
  schedule::ScheduleBuilder builder(schedule::Collective::all_gather, 2, 4, 0, 4);
  builder.send(3, schedule::input(0));
  builder.copy(schedule::output(2), schedule::input(0));
  builder.copy(schedule::output(1), schedule::input(0));
  builder.recv(1, schedule::output(1));
  builder.recv(1, schedule::output(2));
  const schedule::Schedule schedule = std::move(builder).finish();
  EXPECT_EQ(waits(schedule, 1), Ids{});
  EXPECT_EQ(waits(schedule, 3), Ids{2});
  EXPECT_EQ(waits(schedule, 4), (Ids{0, 1, 2}));  // 0 and 1 in place, the copy (2) out of place
}

TEST(Builder, SeesOverlapsOfLongRanges) {
  schedule::ScheduleBuilder builder = all_reduce();
  builder.recv(1, schedule::output(0, 2));
  builder.recv(2, schedule::output(2, 2));
  builder.send(3, schedule::output(1, 2));
  EXPECT_EQ(waits(std::move(builder).finish(), 2), (Ids{0, 1}));
}

TEST(Builder, AddsOrderingsAndDropsImpliedOnes) {
  schedule::ScheduleBuilder builder(schedule::Collective::barrier, 0, 4, 0, 0);
  const auto one = builder.await(1);
  const auto two = builder.await(2, {one});
  builder.notify(3, {one, two, two});
  const std::vector<std::uint32_t> listed = {one, two};
  builder.notify(1, listed);
  const schedule::Schedule schedule = std::move(builder).finish();
  EXPECT_EQ(waits(schedule, 1), Ids{0});
  EXPECT_EQ(waits(schedule, 2), Ids{1});
  EXPECT_EQ(waits(schedule, 3), Ids{1});
}

TEST(Printer, SaysHowScratchIsLaidOut) {
  schedule::ScheduleBuilder builder = all_reduce(2);
  EXPECT_EQ(schedule::to_string(schedule::ScheduleBuilder(builder).finish()),
            "all_reduce, rank 0 of 4, chunks 4, scratch 2\n");
  builder.lay_scratch_like(schedule::input(1, 3));
  EXPECT_EQ(schedule::to_string(schedule::ScheduleBuilder(builder).finish()),
            "all_reduce, rank 0 of 4, chunks 4, scratch 5 like input[1..3]\n");
  builder.lay_scratch_like(schedule::output(0));
  EXPECT_EQ(schedule::to_string(std::move(builder).finish()),
            "all_reduce, rank 0 of 4, chunks 4, scratch 6 like input[1..3] and output[0]\n");
}

TEST(Printer, WritesALineAStep) {
  schedule::ScheduleBuilder builder(schedule::Collective::reduce, 1, 3, 1, 4, 2);
  builder.recv(0, schedule::scratch(0, schedule::input(0, 2)));
  builder.reduce(schedule::output(0, 2), schedule::scratch(0, schedule::input(0, 2)), schedule::input(0, 2),
                 false);
  builder.recv_reduce(2, schedule::output(0, 2), schedule::output(0, 2), true);
  builder.recv_reduce_incoming_first(0, schedule::output(2), schedule::input(2), false);
  builder.copy(schedule::output(3), schedule::input(3));
  builder.send(2, schedule::output(0), {3});
  builder.notify(2);
  builder.await(2);
  EXPECT_EQ(schedule::to_string(std::move(builder).finish()),
            "reduce, rank 1 of 3, root 1, chunks 4, scratch 2\n"
            "  step 0: recv from 0: scratch[0..1] = incoming\n"
            "  step 1: reduce: output[0..1] = scratch[0..1] + input[0..1] after 0\n"
            "  step 2: recv_reduce from 2: output[0..1] = output[0..1] + incoming (completes) after 1\n"
            "  step 3: recv_reduce from 0: output[2] = incoming + input[2]\n"
            "  step 4: copy: output[3] = input[3]\n"
            "  step 5: send to 2: output[0] after 2, 3\n"
            "  step 6: send to 2: nothing\n"
            "  step 7: recv from 2: nothing\n");
}

TEST(Printer, WritesWhatTheHeaderPromises) {
  schedule::Schedule schedule;
  schedule.steps.resize(4);
  schedule.steps[3] = {.kind = schedule::StepKind::recv_reduce,
                       .completes = true,
                       .peer = 2,
                       .dst = schedule::output(1),
                       .a = schedule::output(1),
                       .b = {},
                       .first_dependency = 0,
                       .dependency_count = 2};
  schedule.dependencies = {1, 2};
  EXPECT_EQ(schedule::to_string(schedule, 3),
            "step 3: recv_reduce from 2: output[1] = output[1] + incoming (completes) after 1, 2");
  schedule.dependencies = {1};  // refusals print broken schedules too
  EXPECT_EQ(schedule::to_string(schedule, 3),
            "step 3: recv_reduce from 2: output[1] = output[1] + incoming (completes) after steps that its "
            "schedule "
            "does not list");
}

}  // namespace
}  // namespace kolo

// Names of collectives, and the chunks of buffers.
#include <gtest/gtest.h>

#include <string>

#include "schedule/lengths.hpp"
#include "schedule/memory_map.hpp"
#include "schedule/point_to_point.hpp"
#include "schedule/schedule.hpp"

namespace kolo {
namespace {

TEST(Names, OfCollectivesParseBack) {
  for (int i = 0; i <= static_cast<int>(schedule::Collective::send_recv); ++i) {
    const auto collective = static_cast<schedule::Collective>(i);
    schedule::Collective parsed = collective == schedule::Collective::gather ? schedule::Collective::reduce
                                                                             : schedule::Collective::gather;
    EXPECT_TRUE(schedule::parse_collective(schedule::name_of(collective), parsed))
        << schedule::name_of(collective);
    EXPECT_EQ(parsed, collective);
  }
  EXPECT_EQ(schedule::name_of(schedule::Collective::all_reduce), "all_reduce");
  EXPECT_EQ(schedule::name_of(schedule::Collective::send_recv), "send_recv");
}

TEST(Names, OthersDoNotParse) {
  schedule::Collective untouched = schedule::Collective::scatter;
  for (const char* name : {"", "allreduce", "All_reduce", "all_reduce "}) {
    EXPECT_FALSE(schedule::parse_collective(name, untouched)) << name;
  }
  EXPECT_EQ(untouched, schedule::Collective::scatter);
}

schedule::Schedule of(schedule::Collective collective, int rank) {
  schedule::Schedule schedule;
  schedule.collective = collective;
  schedule.rank = rank;
  schedule.size = 4;
  schedule.root = 2;
  schedule.chunks = 7;
  schedule.scratch_chunks = 3;
  return schedule;
}

TEST(ChunkCount, FollowsTheTable) {
  struct Row {
    schedule::Collective collective;
    std::uint32_t input, output;              // at the root
    std::uint32_t other_input, other_output;  // at other ranks
  };
  const Row rows[] = {
      {schedule::Collective::all_reduce, 7, 7, 7, 7}, {schedule::Collective::reduce_scatter, 4, 1, 4, 1},
      {schedule::Collective::all_gather, 1, 4, 1, 4}, {schedule::Collective::broadcast, 7, 7, 0, 7},
      {schedule::Collective::reduce, 7, 7, 7, 0},     {schedule::Collective::scatter, 4, 1, 0, 1},
      {schedule::Collective::gather, 1, 4, 1, 0},     {schedule::Collective::all_to_all, 4, 4, 4, 4},
      {schedule::Collective::barrier, 0, 0, 0, 0},    {schedule::Collective::send_recv, 1, 1, 1, 1},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(schedule::name_of(row.collective));
    EXPECT_EQ(schedule::chunk_count(of(row.collective, 2), schedule::BufferName::input), row.input);
    EXPECT_EQ(schedule::chunk_count(of(row.collective, 2), schedule::BufferName::output), row.output);
    EXPECT_EQ(schedule::chunk_count(of(row.collective, 1), schedule::BufferName::input), row.other_input);
    EXPECT_EQ(schedule::chunk_count(of(row.collective, 1), schedule::BufferName::output), row.other_output);
    EXPECT_EQ(schedule::chunk_count(of(row.collective, 1), schedule::BufferName::scratch), 3u);
  }
}

TEST(ChunkLengths, AreOwnPartsWhereARankHasOne) {
  const std::uint64_t counts[] = {3, 0, 5, 2};
  using Lengths = std::vector<std::uint64_t>;
  const schedule::ChunkLengths scatter =
      schedule::chunk_lengths(of(schedule::Collective::scatter, 3), counts);
  EXPECT_EQ(scatter.input, (Lengths{3, 0, 5, 2}));  // also if the rank has no input
  EXPECT_EQ(scatter.output, Lengths{2});
  EXPECT_EQ(scatter.slot(), 5u);
  const schedule::ChunkLengths gather =
      schedule::chunk_lengths(of(schedule::Collective::all_gather, 0), counts);
  EXPECT_EQ(gather.input, Lengths{3});
  EXPECT_EQ(gather.output, (Lengths{3, 0, 5, 2}));
  const schedule::ChunkLengths exchange =
      schedule::chunk_lengths(of(schedule::Collective::all_to_all, 3), counts);
  EXPECT_EQ(exchange.input, (Lengths{3, 0, 5, 2}));
  EXPECT_EQ(exchange.output, (Lengths{2, 2, 2, 2}));
}

TEST(ChunkLengths, OfScratchAreThoseOfWhatItIsLike) {
  const schedule::ChunkLengths lengths{{3, 0, 5, 2}, {9}};
  EXPECT_EQ(lengths.of({schedule::BufferName::input, 1, 3}), 7u);
  EXPECT_EQ(lengths.of({schedule::BufferName::output, 0, 1}), 9u);
  EXPECT_EQ(lengths.of({schedule::BufferName::scratch, 8, 2, schedule::BufferName::input, 2}), 7u);
  EXPECT_EQ(lengths.of({schedule::BufferName::scratch, 1, 3, schedule::BufferName::input, 2}),
            10u);  // a range that wraps around
  EXPECT_EQ(lengths.of({}), 0u);
}

TEST(ChunkLengths, OfSlotsAreTheLargestOrThoseOfTheChunksTheyAreLaidOutLike) {
  const schedule::ChunkLengths lengths{{3, 0, 5, 2}, {9}};
  using Lengths = std::vector<std::uint64_t>;
  schedule::Schedule schedule;
  schedule.scratch_chunks = 2;
  EXPECT_EQ(lengths.slots(schedule), (Lengths{9, 9}));
  schedule.scratch_chunks = 3;
  schedule.scratch_like = {{schedule::BufferName::input, 2, 3}};
  EXPECT_EQ(lengths.slots(schedule), (Lengths{5, 2, 3}));
  schedule.scratch_chunks = 6;
  schedule.scratch_like.push_back({schedule::BufferName::output, 0, 1});
  EXPECT_EQ(schedule::alike_slots(schedule), 2u);
  EXPECT_EQ(lengths.slots(schedule), (Lengths{9, 9, 5, 2, 3, 9}));
}

TEST(MemoryMap, InPlaceFollowsTheTable) {
  const auto same = [](schedule::Collective collective, int rank, std::uint32_t in, std::uint32_t out) {
    const schedule::MemoryMap map(of(collective, rank), schedule::Sharing::in_place);
    return map.same({schedule::BufferName::input, in, 1}, {schedule::BufferName::output, out, 1});
  };
  EXPECT_TRUE(same(schedule::Collective::all_reduce, 1, 5, 5));
  EXPECT_FALSE(same(schedule::Collective::all_reduce, 1, 5, 4));
  EXPECT_TRUE(same(schedule::Collective::reduce_scatter, 1, 1, 0));
  EXPECT_FALSE(same(schedule::Collective::reduce_scatter, 1, 0, 0));
  EXPECT_TRUE(same(schedule::Collective::all_gather, 3, 0, 3));
  EXPECT_FALSE(same(schedule::Collective::all_gather, 3, 0, 0));
  EXPECT_TRUE(same(schedule::Collective::broadcast, 2, 6, 6));
  EXPECT_TRUE(same(schedule::Collective::scatter, 2, 2, 0));
  EXPECT_TRUE(same(schedule::Collective::gather, 2, 0, 2));
  EXPECT_TRUE(same(schedule::Collective::all_to_all, 0, 3, 3));
  const schedule::MemoryMap apart(of(schedule::Collective::all_reduce, 1), schedule::Sharing::separate);
  EXPECT_FALSE(apart.same({schedule::BufferName::input, 5, 1}, {schedule::BufferName::output, 5, 1}));
  EXPECT_EQ(apart.cells(), 17u);
}

TEST(PointToPoint, IsOneStep) {
  const schedule::Schedule send = schedule::make_send(1, 4, 3);
  ASSERT_EQ(send.steps.size(), 1u);
  EXPECT_EQ(send.steps[0].kind, schedule::StepKind::send);
  EXPECT_EQ(send.steps[0].peer, 3);
  EXPECT_EQ(send.steps[0].a, (schedule::ChunkRange{schedule::BufferName::input, 0, 1}));
  const schedule::Schedule recv = schedule::make_recv(3, 4, 1);
  ASSERT_EQ(recv.steps.size(), 1u);
  EXPECT_EQ(recv.steps[0].kind, schedule::StepKind::recv);
  EXPECT_EQ(recv.steps[0].peer, 1);
  EXPECT_EQ(recv.steps[0].dst, (schedule::ChunkRange{schedule::BufferName::output, 0, 1}));
  EXPECT_EQ(recv.collective, schedule::Collective::send_recv);
}

}  // namespace
}  // namespace kolo

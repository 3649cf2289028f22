// Grid: who is in which group, and grids that cannot be.
#include "kolo/train/grid.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "train/support/models.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::hybrid {
namespace {

std::vector<int> members(Communicator& group, int rank) {
  std::vector<int> all(static_cast<std::size_t>(group.size()));
  group.all_gather(ConstBuffer(&rank, 1, DType::int32), Buffer(all));
  return all;
}

TEST(Grid, RanksOfATensorGroupAreNeighboursAndStagesAreFarthestApart) {
  run_all(12, [](Communicator& communicator) {
    Grid grid(communicator, {.data = 3, .pipeline = 2, .tensor = 2});
    const int rank = communicator.rank();
    const int slice = rank % 2, replica = rank / 2 % 3, stage = rank / 6;
    EXPECT_EQ(grid.tensor().rank(), slice);
    EXPECT_EQ(grid.data().rank(), replica);
    EXPECT_EQ(grid.pipeline().rank(), stage);
    EXPECT_EQ(members(grid.tensor(), rank), (std::vector{rank - slice, rank - slice + 1}));
    const int first = 6 * stage + slice;
    EXPECT_EQ(members(grid.data(), rank), (std::vector{first, first + 2, first + 4}));
    const int lower = rank - 6 * stage;
    EXPECT_EQ(members(grid.pipeline(), rank), (std::vector{lower, lower + 6}));
    const int corner = 2 * replica;
    EXPECT_EQ(members(grid.replica(), rank), (std::vector{corner, corner + 1, corner + 6, corner + 7}));
    EXPECT_EQ(grid.all().size(), 12);
  });
}

TEST(Grid, ShardsAreBetweenSlicesAndReplicas) {
  run_all(16, [](Communicator& communicator) {
    Grid grid(communicator, {.data = 2, .sharded = 2, .pipeline = 2, .tensor = 2});
    const int rank = communicator.rank();
    const int corner = rank - rank / 2 % 2 * 2;
    EXPECT_EQ(members(grid.sharded(), rank), (std::vector{corner, corner + 2}));
    EXPECT_EQ(members(grid.data(), rank), (std::vector{rank & ~4, rank | 4}));
    EXPECT_EQ(members(grid.pipeline(), rank), (std::vector{rank & ~8, rank | 8}));
    EXPECT_EQ(members(grid.tensor(), rank), (std::vector{rank & ~1, rank | 1}));
    EXPECT_EQ(grid.replica().size(), 8);
    EXPECT_EQ(grid.batch_part(), 2 * (rank / 4 % 2) + rank / 2 % 2);
  });
}

TEST(Grid, GridsThatCannotBeAreToldOnAllRanks) {
  EXPECT_NE(error_of_all(4, [](Communicator& communicator) { Grid(communicator, {.data = 3, .tensor = 2}); })
                .find("takes 6 ranks, and there are 4"),
            std::string::npos);
  EXPECT_NE(
      error_of_all(2, [](Communicator& communicator) { Grid(communicator, {.data = -2, .pipeline = -1}); })
          .find("each part is 1 or more"),
      std::string::npos);
  const std::string odd = error_of_all(4, [](Communicator& communicator) {
    const bool is_odd = communicator.rank() == 2;
    Grid(communicator, {.data = is_odd ? 4 : 2, .pipeline = is_odd ? 1 : 2});
  });
  EXPECT_NE(odd.find("rank 2"), std::string::npos) << odd;
  EXPECT_NE(odd.find("data 4, sharded 1, pipeline 1"), std::string::npos) << odd;
}

}  // namespace
}  // namespace kolo::test::hybrid

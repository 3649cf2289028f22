// Communicator::abort() between processes: also by a rank that exits right after it, and while other ranks
// compute.
#include <gtest/gtest.h>

#include <thread>

#include "multiprocess/processes.hpp"
#include "support/require.hpp"
#include "support/transports.hpp"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

class Abort : public ::testing::TestWithParam<const char*> {};

/// Sums until the communicator fails; throws unless the failure is an abort by rank `giving_up`. Rank
/// `giving_up` runs `give_up` after the first sum, when no rank is still in create() or shrink().
void sum_until_aborted(Communicator& c, std::size_t count, int giving_up,
                       const std::function<void()>& give_up) {
  std::vector<float> data(count);
  try {
    c.all_reduce(data);
    if (c.rank() == giving_up) give_up();
    for (;;) c.all_reduce(data);
  } catch (const AbortedError& error) {
    require(error.context().peer == giving_up, std::string("blames another: ") + error.what());
  }
}

TEST_P(Abort, IsWhatTheOthersHearOfARankThatEndsRightAfter) {
  for (const std::size_t count : {std::size_t{4}, std::size_t{200'000}}) {
    Processes processes({.size = 4, .transports = GetParam()}, [&](Communicator& c) {
      std::vector<float> data(count);
      for (int call = 0; call < 100; ++call) c.all_reduce(data);
      if (c.rank() == 2) return c.abort("the data are broken");
      for (;;) c.all_reduce(data);
    });
    const auto ends = processes.collect(20s);
    for (int rank = 0; rank < 4; ++rank) {
      const RankEnd& end = ends[static_cast<std::size_t>(rank)];
      if (rank == 2) {
        EXPECT_EQ(end.code, 0) << end.error;
        continue;
      }
      EXPECT_NE(end.error.find("AbortedError: rank 2 aborted: the data are broken"), std::string::npos)
          << end.error;
      EXPECT_EQ(end.blamed, 2);
    }
  }
}

TEST_P(Abort, AllGoOnAgainAndAgain) {
  Processes processes({.size = 4, .transports = GetParam()}, [&](Communicator& c) {
    Communicator current = c;
    for (int round = 0; round < 4; ++round) {
      std::thread watcher;
      sum_until_aborted(current, round % 2 == 0 ? 10 : 100'000, round,
                        [&] { watcher = std::thread([&] { current.abort("once more"); }); });
      if (watcher.joinable()) watcher.join();
      current = current.shrink();
      require(current.size() == 4 && current.rank() == c.rank(), "some rank was left out");
      std::vector<int> data(1000, 1);
      current.all_reduce(data);
      require(data.back() == 4, "a wrong sum after the abort");
    }
  });
  for (const RankEnd& end : processes.collect(30s)) EXPECT_EQ(end.code, 0) << end.error;
}

INSTANTIATE_TEST_SUITE_P(Multiprocess, Abort, kBetweenProcesses, kTransportNames);

}  // namespace
}  // namespace kolo::test

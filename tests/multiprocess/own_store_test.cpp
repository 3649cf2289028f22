// A whole job in a store that is not kolo's, without an environment, and jobs that are started again in it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "multiprocess/processes.hpp"
#include "support/dying_store.hpp"
#include "support/own_stores.hpp"
#include "support/require.hpp"
#include "support/temporary_folder.hpp"
#include "support/transports.hpp"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

void sum(Communicator& c) {
  std::vector<int> data(10'000, c.rank());
  c.all_reduce(data);
  require(std::ranges::count(data, c.size() * (c.size() - 1) / 2) == 10'000, "a wrong sum");
}

/// Each collective once.
void call_all(Communicator& c) {
  const auto n = static_cast<std::size_t>(c.size());
  std::vector<int> one{c.rank()}, all(n), out{-1};
  sum(c);
  c.all_gather(one, all);
  for (std::size_t r = 0; r < n; ++r) require(all[r] == static_cast<int>(r), "all_gather");
  c.reduce_scatter(all, out);
  require(out[0] == c.rank() * c.size(), "reduce_scatter");
  c.scan(one, out);
  require(out[0] == c.rank() * (c.rank() + 1) / 2, "scan");
  c.reduce(one, out, 0);
  c.broadcast(out, 0);
  require(out[0] == c.size() * (c.size() - 1) / 2, "reduce and broadcast");
  c.gather(one, all, 1);
  c.scatter(all, out, 1);
  require(out[0] == c.rank(), "gather and scatter");
  c.all_to_all(all);
  c.sendrecv(one, (c.rank() + 1) % c.size(), out, (c.rank() + c.size() - 1) % c.size());
  require(out[0] == (c.rank() + c.size() - 1) % c.size(), "sendrecv");
  c.barrier();
}

TEST(OwnStores, AreEnoughForAWholeJob) {
  for (const char* transports : transports_that_reach(transport::Reach::host)) {
    const TemporaryFolder folder;
    ProcessOptions options{.size = 4, .transports = transports};
    options.key = "the key of this test";
    options.prepare = [](int) {
      for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "KOLO_STORE", "KOLO_KEY"})
        ::unsetenv(name);
    };
    options.meet_in = [&](int, const std::shared_ptr<Store>&) {
      return std::make_shared<FolderStore>(folder / "store");
    };
    Processes processes(options, [](Communicator& c) {
      call_all(c);
      Communicator half = c.split(c.rank() % 2);
      call_all(half);
      if (c.rank() != 2) {
        Communicator group = c.create_group(std::vector{3, 0, 1});
        call_all(group);
      }
      c.barrier();
      if (c.rank() == 2) ::raise(SIGKILL);
      try {
        while (true) c.barrier();
      } catch (const PeerLostError&) {
        Communicator rest = c.shrink();
        require(rest.size() == 3, "a survivor is missing");
        call_all(rest);
      }
    });
    for (const RankEnd& end : processes.collect(30s, {2}))
      EXPECT_EQ(end.code, 0) << transports << ": " << end.error;
  }
}

// As torchrun does: one rank dies, the launcher kills the rest and starts all ranks again, with the same
// store and the same prefix.
TEST(OwnStores, JobsThatAreStartedAgainMeetOnlyTheirOwnRanks) {
  const TemporaryFolder folder;
  for (int start = 0; start < 100; ++start) {
    ProcessOptions options{.size = 3, .transports = "shm", .timeout = 20s};
    options.key = "the key of this test";
    const int victim = start % 3;
    const int at = start % 2 == 0 ? 1 + start / 6 : 0;  // each second job is left alone
    options.meet_in = [&](int rank, const std::shared_ptr<Store>&) -> std::shared_ptr<Store> {
      const auto store = make_prefix_store("default_pg", std::make_shared<FolderStore>(folder / "store"));
      if (rank != victim || at == 0) return store;
      return std::make_shared<DyingStore>(store, at);
    };
    Processes processes(options, [](Communicator& c) {
      sum(c);
      if (c.rank() == 0) c.send(ConstBuffer(), 1);
      if (c.rank() == 1) c.recv(Buffer(), 0);
    });
    if (at > 0) {
      processes.collect_one(victim, 20s);  // the others are killed
    } else {
      for (const RankEnd& end : processes.collect(20s)) EXPECT_EQ(end.code, 0) << start << ": " << end.error;
    }
  }
}

// A second job of another size, whose ranks come while the store holds half of a first one.
TEST(OwnStores, AJobMayComeBackWithFewerRanks) {
  const TemporaryFolder folder;
  const auto run = [&](int size, int missing) {
    ProcessOptions options{.size = size, .transports = "shm", .timeout = 20s};
    options.meet_in = [&](int rank, const std::shared_ptr<Store>&) -> std::shared_ptr<Store> {
      if (rank == missing) ::raise(SIGKILL);
      return std::make_shared<FolderStore>(folder / "store");
    };
    Processes processes(options, sum);
    if (missing >= 0) {
      const FolderStore store(folder / "store");
      const auto round = make_prefix_store("round 1", std::make_shared<FolderStore>(folder / "store"));
      ASSERT_TRUE(round->wait({"rank/0", "rank/1"}, 20s).empty());
      return;
    }
    for (const RankEnd& end : processes.collect(20s)) EXPECT_EQ(end.code, 0) << end.error;
  };
  run(4, 3);
  run(3, -1);
}

}  // namespace
}  // namespace kolo::test

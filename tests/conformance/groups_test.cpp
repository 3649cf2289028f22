// create_group(): groups that only their members create.
#include <dirent.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <thread>

#include "support/cluster.hpp"
#include "support/require.hpp"
#include "support/transports.hpp"

namespace kolo::test {
namespace {

using std::chrono::seconds;

class GroupsOver : public ::testing::TestWithParam<const char*> {};

/// The sum of the members' numbers in `world`.
void require_sum(Communicator& group, const Communicator& world, const std::vector<int>& members) {
  std::vector<int> data(10'000, world.rank());
  group.all_reduce(data);
  int sum = 0;
  for (const int member : members) sum += member;
  require(std::ranges::count(data, sum) == 10'000, "a wrong sum in a group");
}

TEST_P(GroupsOver, OnlyTheMembersTakePart) {
  expect_ranks({.size = 5, .transport = GetParam()}, [](Communicator& world) {
    const std::vector<int> members{3, 0, 4};
    const auto place = std::ranges::find(members, world.rank());
    if (place != members.end()) {
      Communicator group = world.create_group(members);
      require(group.size() == 3 && group.rank() == place - members.begin(), "the order was not kept");
      require_sum(group, world, members);
      require(group.transport_to((group.rank() + 1) % 3) == GetParam(), "another transport");
      // A group of a group, and one that only this rank is in.
      if (group.rank() != 1) {
        const std::vector<int> inner{2, 0};
        Communicator pair = group.create_group(inner);
        require_sum(pair, world, {3, 4});
      }
      const int self[] = {group.rank()};
      Communicator alone = group.create_group(self);
      require_sum(alone, world, {world.rank()});
      Communicator half = group.split(group.rank() == 0 ? 0 : 1);
      require_sum(half, world, group.rank() == 0 ? std::vector{3} : std::vector{0, 4});
    }
    world.barrier();
  });
}

TEST_P(GroupsOver, ThreadsCreateOverlappingGroupsInAnyOrder) {
  expect_ranks({.size = 4, .transport = GetParam()}, [](Communicator& world) {
    std::vector<std::vector<int>> lists{{0, 1}, {1, 0, 2}, {3, 2}, {0, 1, 2, 3},
                                        {3, 1}, {2, 0},    {1, 2}, {0, 3}};
    std::erase_if(lists, [&](const auto& list) { return std::ranges::count(list, world.rank()) == 0; });
    Communicator other = world.split(0);
    in_threads(static_cast<int>(lists.size()) + 1, [&](int thread) {
      if (thread == 0) {  // split() takes numbers and slots meanwhile
        for (int round = 0; round < 20; ++round) (void)other.split(world.rank() % 2);
        return;
      }
      const auto& list = lists[(static_cast<std::size_t>(thread + world.rank())) % lists.size()];
      for (int round = 0; round < 20; ++round) {
        Communicator group = world.create_group(list);
        require_sum(group, world, list);
      }
    });
    world.barrier();
  });
}

int entries_of(const char* folder) {
  DIR* const opened = ::opendir(folder);
  int count = 0;
  while (::readdir(opened) != nullptr) ++count;
  ::closedir(opened);
  return count;
}

TEST_P(GroupsOver, NothingIsLeftOfThem) {
  constexpr int kPairs = 6;
  const auto create = [](Communicator& world, int groups) {
    constexpr std::array<std::array<int, 2>, kPairs> kLists{{{0, 1}, {2, 3}, {0, 2}, {1, 3}, {3, 0}, {2, 1}}};
    for (int i = 0; i < groups; ++i) {
      const auto& list = kLists[static_cast<std::size_t>(i % kPairs)];
      if (std::ranges::count(list, world.rank()) == 0) continue;
      int one = 1;
      Communicator group = world.create_group(list);
      group.all_reduce(Buffer(&one, 1, DType::int32));
      require(one == 2, "a wrong sum");
    }
  };
  expect_ranks({.size = 4, .transport = GetParam()}, [&](Communicator& world) {
    struct Left {
      int threads = 0, descriptors = 0;
      std::size_t bytes = 0;
    };
    const auto look = [&] {
      world.barrier();
      Left left;
      if (world.rank() == 0)
        left = {entries_of("/proc/self/task"), entries_of("/proc/self/fd"), ::mallinfo2().uordblks};
      world.barrier();
      return left;
    };
    create(world, 800);  // the engine remembers some closed groups
    const Left before = look();
    create(world, 400);
    const Left after = look();
    require(after.threads == before.threads, "threads are left");
    require(after.descriptors == before.descriptors, "descriptors are left");
    // A record of a group has 2 KiB, and there are two for each group.
    require(after.bytes < before.bytes + 250'000,
            "memory is left: " + std::to_string(after.bytes - before.bytes) + " bytes");
  });
}

TEST_P(GroupsOver, WrongListsAreRefused) {
  expect_ranks({.size = 3, .transport = GetParam()}, [](Communicator& c) {
    const auto refused = [&](const std::vector<int>& list, const std::string& what) {
      try {
        (void)c.create_group(list);
      } catch (const InvalidArgumentError& error) {
        return require(std::string(error.what()).find(what) != std::string::npos, error.what());
      }
      require(false, "accepted");
    };
    refused({c.rank(), 3}, "create_group: 3 is not a rank of this communicator of 3");
    refused({-1, c.rank()}, "create_group: -1 is not a rank");
    refused({c.rank(), c.rank()}, "is listed twice");
    const int next = (c.rank() + 1) % 3;
    refused({next}, "rank " + std::to_string(c.rank()) + ": create_group({" + std::to_string(next) +
                        "}): this rank calls it and is not listed");
    refused({}, "create_group({})");
    c.barrier();
  });
}

TEST_P(GroupsOver, DifferentOrdersAreAMismatchOnAllMembers) {
  expect_ranks({.size = 4, .transport = GetParam()}, [](Communicator& c) {
    if (c.rank() != 1) {
      const std::vector<int> lists[] = {{0, 2, 3}, {2, 0, 3}};
      try {
        (void)c.create_group(lists[c.rank() == 3]);
        require(false, "no mismatch");
      } catch (const MismatchError& error) {
        const std::string text = error.what();
        require(
            text.find("ranks 0, 2 called create_group({0, 2, 3}), rank 3 called create_group({2, 0, 3})") !=
                std::string::npos,
            text);
      }
      require(c.create_group(lists[0]).size() == 3, "unusable");
    }
    c.barrier();
  });
}

/// Every rank soon fails. `said`: words of each error.
void expect_all_told(const ClusterOptions& options, const std::vector<std::string>& said,
                     const std::function<void(Communicator&)>& body) {
  const auto begin = std::chrono::steady_clock::now();
  const Outcome outcome = run_ranks(options, [&](Communicator& c) {
    c.barrier();
    body(c);
    c.set_timeout(seconds(40));
    c.recv_any_async(Buffer(), 99).wait();  // until it is told
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(20));
  for (const std::string& error : outcome.errors) {
    for (const std::string& word : said)
      EXPECT_NE(error.find(word), std::string::npos) << word << " is not in " << error;
  }
}

TEST_P(GroupsOver, AMemberThatDoesNotCallIsNamed) {
  expect_all_told({.size = 3, .transport = GetParam(), .timeout = seconds(1)},
                  {"rank 2", "has not made this", "create_group({0, 1, 2})"}, [](Communicator& c) {
                    if (c.rank() < 2) (void)c.create_group(std::vector{0, 1, 2});
                  });
}

TEST_P(GroupsOver, MembersThatListOtherRanksAreNamed) {
  // Rank 2 makes the call of rank 1, and none of them that of rank 0.
  expect_all_told({.size = 3, .transport = GetParam(), .timeout = seconds(1)},
                  {"create_group({0, 1})", "create_group({0, 1, 2})"}, [](Communicator& c) {
                    (void)c.create_group(c.rank() == 0 ? std::vector{0, 1} : std::vector{0, 1, 2});
                  });
}

TEST_P(GroupsOver, AnAbortEndsIt) {
  expect_all_told({.size = 3, .transport = GetParam(), .timeout = seconds(40)}, {"rank 2 aborted: enough"},
                  [](Communicator& c) {
                    if (c.rank() == 2) {
                      int number = 0;
                      c.recv(Buffer(&number, 1, DType::int32), 0);
                      c.abort("enough");
                      return;
                    }
                    const int number = 1;
                    if (c.rank() == 0) c.send(ConstBuffer(&number, 1, DType::int32), 2);
                    (void)c.create_group(std::vector{0, 1, 2});
                  });
}

TEST_P(GroupsOver, AMemberThatLeavesIsNamed) {
  const Outcome outcome =
      run_ranks({.size = 3, .transport = GetParam(), .timeout = seconds(40)}, [](Communicator& c) {
        c.barrier();
        if (c.rank() == 1) {
          c = Communicator();
          throw std::runtime_error("left: rank 1");
        }
        (void)c.create_group(std::vector{0, 1, 2});
      });
  for (const std::string& error : outcome.errors) EXPECT_NE(error.find("rank 1"), std::string::npos) << error;
}

INSTANTIATE_TEST_SUITE_P(Conformance, GroupsOver, kTransports, kTransportNames);

}  // namespace
}  // namespace kolo::test

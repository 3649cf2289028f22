// A forked child that uses its parent's communicator gets an error. The parent and its peers notice nothing.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "kolo/sparse.hpp"
#include "multiprocess/processes.hpp"
#include "support/require.hpp"
#include "support/transports.hpp"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

class Fork : public ::testing::TestWithParam<const char*> {};

/// Runs `body` in a forked child and throws if it fails or takes long.
void in_a_child(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    try {
      body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "in the child: %s\n", error.what());
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child did not end well");
}

void expect_refused(pid_t owner, const char* what, const std::function<void()>& use) {
  std::string error = "none";
  try {
    use();
  } catch (const InvalidArgumentError& refusal) {
    error = refusal.what();
  }
  const bool is_told = error.find("belongs to process " + std::to_string(owner)) != error.npos;
  require(is_told, std::string(what) + ", error: " + error);
}

void use_all(Communicator& c, pid_t owner) {
  std::vector<std::int32_t> one(4, 1000), other(4), all(8);
  const auto refused = [&](const char* what, const std::function<void()>& use) {
    expect_refused(owner, what, use);
  };
  refused("all_reduce", [&] { c.all_reduce(one); });
  refused("all_reduce_async", [&] { c.all_reduce_async(one).wait(); });
  refused("reduce_scatter", [&] { c.reduce_scatter(all, other); });
  refused("all_gather", [&] { c.all_gather(one, all); });
  refused("broadcast", [&] { c.broadcast(one, 0); });
  refused("reduce", [&] { c.reduce(one, other, 0); });
  refused("scatter", [&] { c.scatter(all, one, 0); });
  refused("gather", [&] { c.gather(one, all, 0); });
  refused("all_to_all", [&] { c.all_to_all(one); });
  refused("a sparse sum", [&] { SparseAllReduce(c).sum(SparseVector<float>{4, {0, 1}, {1, 2}}); });
  refused("barrier", [&] { c.barrier(); });
  refused("barrier_async", [&] { (void)c.barrier_async(); });
  refused("send", [&] { c.send(one, 1 - c.rank()); });
  refused("recv", [&] { c.recv(one, 1 - c.rank()); });
  refused("sendrecv", [&] { c.sendrecv(one, 1 - c.rank(), other, 1 - c.rank()); });
  refused("probe", [&] { static_cast<void>(c.probe(kAnyRank)); });
  refused("recv_async", [&] { (void)c.recv_async(one, 1 - c.rank()); });
  refused("split", [&] { (void)c.split(0); });
  refused("subgroup", [&] { (void)c.subgroup(std::vector<int>{0, 1}); });
  refused("shrink", [&] { (void)c.shrink(); });
  refused("counters", [&] { c.counters(); });
  refused("set_timeout", [&] { c.set_timeout(1s); });
  refused("transport_to", [&] { c.transport_to(1 - c.rank()); });
  require(c.size() == 2 && c.timeout() > 0s, "the child does not know what stays true");
}

TEST_P(Fork, AChildThatUsesTheCommunicatorGetsAnError) {
  Processes processes({.size = 2, .transports = GetParam()}, [](Communicator& c) {
    std::vector<std::int32_t> word(1);
    const auto expect_sum = [&] {
      word[0] = c.rank() + 1;
      c.all_reduce(word);
      require(word[0] == 3, "the sum is " + std::to_string(word[0]));
    };
    expect_sum();
    std::vector<std::int32_t> late(1), early(1, c.rank());
    const Work waiting = c.recv_async(late, 1 - c.rank(), 1);
    const Work finished = c.all_reduce_async(early);
    std::atomic<int> called = 0;
    for (const Work& work : {finished, waiting}) work.then([&](const Work&) { ++called; });
    finished.wait();
    while (called < 1) std::this_thread::sleep_for(1ms);
    const pid_t owner = ::getpid();
    in_a_child([&] {
      use_all(c, owner);
      expect_refused(owner, "wait", [&] { waiting.wait(); });
      expect_refused(owner, "wait_all", [&] { wait_all(std::vector{finished, waiting}); });
      expect_refused(owner, "then", [&] { waiting.then([](const Work&) {}); });
      expect_refused(owner, "then", [&] { finished.then([](const Work&) {}); });
      expect_refused(owner, "wait with a limit", [&] { (void)waiting.wait(1s); });
      require(waiting.done() && waiting.error() != nullptr, "a child would look for ever");
      finished.wait();
      require(finished.error() == nullptr && early[0] == 1, "what was over before is not any more");
      c = {};
      expect_refused(owner, "wait", [&] { waiting.wait(); });
    });
    for (int i = 0; i < 100; ++i) expect_sum();
    c.send(std::vector<std::int32_t>{7}, 1 - c.rank(), 1);
    waiting.wait();
    require(late[0] == 7, "the message is " + std::to_string(late[0]));
    while (called < 2) std::this_thread::sleep_for(1ms);
  });
  for (const RankEnd& end : processes.collect(60s)) EXPECT_EQ(end.code, 0) << end.error;
}

// Locks that other threads hold at the fork stay locked in the child for ever.
TEST_P(Fork, AChildOfABusyRankGetsTheErrorToo) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer's own allocator keeps locks that other threads hold at the fork";
#endif
  Processes processes({.size = 2, .transports = GetParam()}, [](Communicator& c) {
    Communicator other = c.split(0);
    std::atomic<bool> ends = false;
    std::thread busy([&] {
      std::vector<std::int32_t> word(1);
      while (word[0] < 2) {  // until both threads are inside
        word[0] = ends ? 1 : 0;
        other.all_reduce(word);
      }
    });
    std::string error;
    for (int i = 0; i < 50 && error.empty(); ++i) {
      try {
        in_a_child([&, owner = ::getpid()] {
          use_all(c, owner);
          use_all(other, owner);
        });
      } catch (const std::exception& problem) {
        error = problem.what();
      }
    }
    ends = true;
    busy.join();
    require(error.empty(), error);
  });
  for (const RankEnd& end : processes.collect(60s)) EXPECT_EQ(end.code, 0) << end.error;
}

TEST_P(Fork, ChildrenMeetInACommunicatorOfTheirOwn) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer lets no forked child of several threads start one";
#endif
  const std::string store =
      (std::filesystem::temp_directory_path() / ("kolo-test-" + std::to_string(::getpid())));
  Processes processes({.size = 2, .transports = GetParam()}, [&](Communicator& c) {
    std::vector<std::int32_t> data(100'000, c.rank() + 1);
    c.all_reduce(data);
    in_a_child([&] {
      auto own = Communicator::create(make_file_store(store), c.rank(), c.size(),
                                      {.timeout = 10s, .transports = GetParam()});
      std::vector<std::int32_t> mine(100'000, 10);
      own.all_reduce(mine);
      require(mine.front() == 20 && mine.back() == 20, "wrong sum among children");
    });
    c.all_reduce(data);
    require(data.front() == 6 && data.back() == 6, "wrong sum");
  });
  for (const RankEnd& end : processes.collect(60s)) EXPECT_EQ(end.code, 0) << end.error;
  std::filesystem::remove(store);
}

INSTANTIATE_TEST_SUITE_P(Multiprocess, Fork, kBetweenProcesses, kTransportNames);

}  // namespace
}  // namespace kolo::test

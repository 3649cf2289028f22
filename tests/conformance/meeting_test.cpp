// The exchange of addresses through the store, and the errors if some ranks do not come.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kolo/store.hpp"
#include "support/cluster.hpp"
#include "support/watchdog.hpp"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

/// The error of each of these ranks in create(); empty without one.
std::vector<std::string> told(const std::vector<std::function<void()>>& ranks) {
  const Watchdog watchdog(60s);
  std::vector<std::string> errors(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        ranks[i]();
      } catch (const std::exception& error) {
        errors[i] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

TEST(Meeting, OthersLearnWhomRankZeroHasWaitedForBeforeItTakesTheStoreAway) {
  auto server = serve_tcp_store("127.0.0.1", 0, "");
  const auto store = [port = server->port()] { return connect_tcp_store("127.0.0.1", port, "", 10s); };
  const auto errors = told({[&] {
                              try {
                                (void)Communicator::create(store(), 0, 3, {.timeout = 2s});
                              } catch (...) {
                                server.reset();
                                throw;
                              }
                            },
                            [&] { (void)Communicator::create(store(), 1, 3, {.timeout = 50s}); }});
  for (const std::string& error : errors)
    EXPECT_NE(error.find("rank 2 of 3 did not come within 2 s"), std::string::npos) << error;
}

/// All ranks soon get this error.
void expect_all_told(const std::vector<std::function<void()>>& ranks, const std::string& what) {
  const auto begin = std::chrono::steady_clock::now();
  for (const std::string& error : told(ranks)) EXPECT_NE(error.find(what), std::string::npos) << error;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
}

TEST(Meeting, RanksThatWereToldDifferentSizesLearnIt) {
  for (const int size : {2, 3}) {
    const auto store = make_memory_store();
    const int other = 5 - size;
    expect_all_told({[&] { (void)Communicator::create(store, 0, size, {.timeout = 50s}); },
                     [&] { (void)Communicator::create(store, 1, other, {.timeout = 50s}); }},
                    "rank 0 was told that there are " + std::to_string(size) +
                        " ranks, rank 1 that there are " + std::to_string(other));
  }
}

TEST(Meeting, ARankThatCannotGoOnSaysWhy) {
  for (const int bad : {0, 1, 2}) {
    const auto store = make_memory_store();
    const auto rank = [&](int r) {
      return [&store, r, bad] {
        (void)Communicator::create(store, r, 3,
                                   {.timeout = 50s, .transports = r == bad ? "pigeon" : "inproc"});
      };
    };
    expect_all_told({rank(0), rank(1), rank(2)}, "there is no transport 'pigeon'");
  }
}

TEST(Meeting, ATransportMayBeNamedTwice) {
  for (const char* names : {"inproc,inproc", "tcp,tcp", "shm,tcp,shm"}) {
    expect_ranks({.size = 2, .transport = names}, [](Communicator& c) { c.barrier(); });
  }
}

TEST(Meeting, RanksThatCannotReachEachOtherAreNamedToAll) {
  const auto store = make_memory_store();
  const auto rank = [&](int r) {
    return [&store, r] {
      (void)Communicator::create(store, r, 3, {.timeout = 50s, .transports = r == 1 ? "tcp" : "inproc"});
    };
  };
  expect_all_told({rank(0), rank(1), rank(2)}, "share no transport that reaches");
}

TEST(Meeting, WhoGivesUpEarlyIsNotWaitedFor) {
  const auto store = make_memory_store();
  expect_all_told({[&] { (void)Communicator::create(store, 0, 3, {.timeout = 50s}); },
                   [&] { (void)Communicator::create(store, 1, 3, {.timeout = 1s}); },
                   [&] {
                     std::this_thread::sleep_for(5s);
                     (void)Communicator::create(store, 2, 3, {.timeout = 50s});
                   }},
                  "rank 2 of 3 did not come within 1 s");
}

TEST(Meeting, AStoreServesOneGroup) {
  const auto store = make_memory_store();
  const auto rank = [&](int r) {
    return [&store, r] { (void)Communicator::create(store, r, 2, {.timeout = 50s}); };
  };
  for (const std::string& error : told({rank(0), rank(1)})) EXPECT_EQ(error, "");
  const auto errors = told({rank(0), rank(1)});
  EXPECT_NE(errors[0].find("two processes have come to memory as rank 0 of 2"), std::string::npos)
      << errors[0];
  EXPECT_NE(errors[1], "");
}

}  // namespace
}  // namespace kolo::test

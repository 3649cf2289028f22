// The exchange of addresses through the store, and the errors if some ranks do not come.
#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kolo/store.hpp"
#include "support/cluster.hpp"
#include "support/own_stores.hpp"
#include "support/require.hpp"
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
    EXPECT_NE(error.find("rank 2 of 3 did not come: timed out after 2 s"), std::string::npos) << error;
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
                  "rank 2 of 3 did not come: timed out after 1 s");
}

TEST(Meeting, AStoreServesOneGroupAfterAnother) {
  const auto store = std::make_shared<MapStore>();
  std::size_t keys = 0;
  for (int group = 0; group < 100; ++group) {
    const auto rank = [&](int r) {
      return [&store, r] {
        auto c = Communicator::create(store, r, 3,
                                      {.timeout = 50s, .transports = "inproc", .measure_costs = false});
        require(c.all_reduce(r) == 3, "a wrong sum");
      };
    };
    for (const std::string& error : told({rank(0), rank(1), rank(2)})) EXPECT_EQ(error, "");
    if (group == 2) keys = store->size();
  }
  EXPECT_EQ(store->size(), keys);
}

TEST(Meeting, RanksOfDifferentKeysDoNotConnect) {
  const auto join = [](const std::string& zero, const std::string& one) {
    const auto store = make_memory_store();
    const auto rank = [&](int r, const std::string& key) {
      return [&store, r, key] {
        auto c = Communicator::create(store, r, 2, {.timeout = 2s, .transports = "tcp", .key = key});
        c.barrier();
      };
    };
    return told({rank(0, zero), rank(1, one)});
  };
  for (const std::string& error : join("the key of this test", "the key of this test")) EXPECT_EQ(error, "");
  for (const std::string other : {"another key of tests", ""}) {
    for (const std::string& error : join("the key of this test", other)) {
      EXPECT_NE(error.find("rank 0 and rank 1 have different keys: Options::key"), std::string::npos)
          << error;
      EXPECT_EQ(error.find("key of this test"), std::string::npos) << error;
    }
  }
}

/// A view of a store in which some calls do something else.
class BadStore final : public Store {
 public:
  /// `spoil` is asked about each call, by name and key. It may throw, block, or return another result.
  using Spoil = std::function<std::optional<std::string>(std::string_view call, const std::string& key)>;
  BadStore(std::shared_ptr<Store> store, Spoil spoil) : store_(std::move(store)), spoil_(std::move(spoil)) {}

  void set(const std::string& key, const std::string& value) override {
    store_->set(key, spoil_("set", key).value_or(value));
  }
  std::string get(const std::string& key, std::chrono::nanoseconds timeout) override {
    const auto spoilt = spoil_("get", key);
    return spoilt ? *spoilt : store_->get(key, timeout);
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    const auto spoilt = spoil_("add", key);
    return spoilt ? std::stoll(*spoilt) : store_->add(key, amount);
  }
  std::vector<std::string> wait(const std::vector<std::string>& keys,
                                std::chrono::nanoseconds timeout) override {
    if (const auto spoilt = spoil_("wait", keys.front())) return {*spoilt};
    return store_->wait(keys, timeout);
  }
  void remove(const std::string& key) override { store_->remove(key); }
  std::string describe() const override { return spoil_("describe", "").value_or(store_->describe()); }

 private:
  const std::shared_ptr<Store> store_;
  const Spoil spoil_;
};

/// The error of rank `bad` of two, whose store is spoilt.
std::string error_in(int bad, const BadStore::Spoil& spoil) {
  const auto store = std::make_shared<MapStore>();
  const auto rank = [&](int r) {
    return [&, r] {
      std::shared_ptr<Store> own = store;
      if (r == bad) own = std::make_shared<BadStore>(store, spoil);
      (void)Communicator::create(own, r, 2, {.timeout = 5s, .transports = "inproc"});
    };
  };
  return told({rank(0), rank(1)})[static_cast<std::size_t>(bad)];
}

const std::vector<std::string> kStoreCalls = {"set", "get", "add", "wait", "describe"};

TEST(Meeting, AStoreThatThrowsIsNamed) {
  const std::vector<std::function<void()>> ways = {[] { throw std::runtime_error("it is full"); },
                                                   [] { throw TimeoutError("it is full", {}); },
                                                   [] { throw 42; }};
  in_threads(static_cast<int>(ways.size() * kStoreCalls.size()), [&](int i) {
    const std::size_t way = static_cast<std::size_t>(i) / kStoreCalls.size();
    const std::string& call = kStoreCalls[static_cast<std::size_t>(i) % kStoreCalls.size()];
    const std::string error = error_in(1, [&](std::string_view made, const std::string&) {
      if (made == call) ways[way]();
      return std::nullopt;
    });
    const std::string name = call == "describe" ? "of the caller's own" : "a map";
    EXPECT_NE(error.find("the store " + name + " fails in " + call + "("), std::string::npos) << error;
    EXPECT_NE(error.find(way == 2 ? "no std::exception" : "it is full"), std::string::npos) << error;
  });
}

TEST(Meeting, AStoreThatDoesNotReturnIsNamed) {
  struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_open = false;
  };
  in_threads(static_cast<int>(kStoreCalls.size()), [&](int i) {
    const std::string& call = kStoreCalls[static_cast<std::size_t>(i)];
    const auto gate = std::make_shared<Gate>();  // the thread of the call outlives this one
    const std::string error = error_in(1, [call, gate](std::string_view made, const std::string&) {
      if (made == call) {
        std::unique_lock lock(gate->mutex);
        gate->changed.wait(lock, [&] { return gate->is_open; });
      }
      return std::nullopt;
    });
    EXPECT_NE(error.find(" fails in " + call + "("), std::string::npos) << error;
    EXPECT_NE(error.find("it has not returned for"), std::string::npos) << error;
    const std::lock_guard lock(gate->mutex);
    gate->is_open = true;
    gate->changed.notify_all();
  });
}

TEST(Meeting, AStoreThatReturnsSomethingElseIsNamed) {
  struct Case {
    int rank;
    std::string call, key, returns;
  };
  const std::vector<Case> cases = {{1, "get", "/job", "mess"},      {1, "get", "/job", "2 "},
                                   {1, "get", "/job", ""},          {1, "add", "/came/1", "-7"},
                                   {1, "get", "/verdict", "mess"},  {1, "get", "/verdict", "1 2"},
                                   {1, "get", "/offers/0", "mess"}, {1, "wait", "/verdict", "mess"},
                                   {0, "add", "rounds", "0"},       {0, "get", "/rank/0", "mess"}};
  in_threads(static_cast<int>(cases.size()), [&](int i) {
    const Case& one = cases[static_cast<std::size_t>(i)];
    const std::string error = error_in(one.rank, [&](std::string_view call, const std::string& key) {
      return call == one.call && key.ends_with(one.key) ? std::optional(one.returns) : std::nullopt;
    });
    EXPECT_NE(error.find("the store a map"), std::string::npos) << one.call << one.key << ": " << error;
  });
}

}  // namespace
}  // namespace kolo::test

// AddressExchange: the keys that ranks write into a store and read from it before they connect.
#include "comm/address_exchange.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <stdexcept>
#include <thread>

#include "kolo/error.hpp"
#include "support/own_stores.hpp"

namespace kolo {
namespace {

using namespace std::chrono_literals;

/// Rank 0 of two ranks: exchanges addresses, then runs `then`.
std::thread rank_zero(std::shared_ptr<Store> store, const std::function<void(comm::AddressExchange&)>& then) {
  return std::thread([store = std::move(store), then] {
    comm::AddressExchange address_exchange(store, 0, 2, 30s);
    address_exchange.job();
    address_exchange.offers("zero");
    then(address_exchange);
  });
}

TEST(AddressExchange, TellsAllWhatEachOffersHoweverMuchThatIs) {
  const auto store = make_memory_store();
  constexpr int kRanks = 3;
  const auto offer = [](int rank) {
    return "rank " + std::to_string(rank) + '\n' + std::string(80'000u * static_cast<unsigned>(rank), 'x');
  };
  std::vector<std::string> jobs(kRanks);
  std::vector<std::vector<std::string>> heard(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      comm::AddressExchange address_exchange(store, rank, kRanks, 30s);
      jobs[static_cast<std::size_t>(rank)] = address_exchange.job();
      heard[static_cast<std::size_t>(rank)] = address_exchange.offers(offer(rank));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& offers : heard) EXPECT_EQ(offers, (std::vector{offer(0), offer(1), offer(2)}));
  for (const std::string& job : jobs) EXPECT_EQ(job, jobs[0]);
  EXPECT_FALSE(jobs[0].empty());
}

TEST(AddressExchange, WhoComesAsARankThatHasComeIsNamed) {
  const auto store = make_memory_store();
  std::thread zero = std::thread([&] {
    comm::AddressExchange address_exchange(store, 0, 3, 30s);
    EXPECT_THROW(address_exchange.attempt([&] {
      address_exchange.job();
      address_exchange.offers("zero");
    }),
                 RendezvousError);
  });
  comm::AddressExchange first(store, 1, 3, 30s);
  first.job();
  comm::AddressExchange second(store, 1, 3, 30s);
  try {
    second.job();
    FAIL() << "met";
  } catch (const RendezvousError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("two processes have come to memory as rank 1 of 3"), std::string::npos) << text;
    const std::string pid = std::to_string(::getpid());
    EXPECT_NE(text.find("first process " + pid), std::string::npos) << text;
    EXPECT_NE(text.find("then process " + pid), std::string::npos) << text;
  }
  const auto round = make_prefix_store("round 1", store);
  for (const char* key : {"told/1", "told/2"}) round->set(key, "");  // rank 0 waits for that
  zero.join();
}

/// All ranks meet, rank 0 perhaps last; returns the group's name.
std::string meet(const std::shared_ptr<Store>& store, int size) {
  std::vector<std::string> jobs(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = size - 1; rank >= 0; --rank) {
    threads.emplace_back([&, rank] {
      comm::AddressExchange address_exchange(store, rank, size, 30s);
      for (std::vector<std::string> offers; offers.empty();) {
        jobs[static_cast<std::size_t>(rank)] = address_exchange.job();
        offers = address_exchange.offers(std::to_string(rank));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& job : jobs) EXPECT_EQ(job, jobs[0]);
  return jobs[0];
}

TEST(AddressExchange, RanksMeetAgainInTheSameStoreAndLeaveFewKeys) {
  const auto store = std::make_shared<test::MapStore>();
  const std::string first = meet(store, 4);
  meet(store, 4);
  const std::size_t keys = store->size();
  for (int round = 0; round < 100; ++round) EXPECT_NE(meet(store, 4), first);
  EXPECT_LE(store->size(), keys);
}

// Objects that are dropped stand for processes that have died.
TEST(AddressExchange, RanksOfARoundInWhichSomeHaveDiedMeetInTheNext) {
  const auto store = make_memory_store();
  const auto die = [&](int rank) { comm::AddressExchange(store, rank, 3, 30s).job(); };
  die(0);
  meet(store, 3);  // others may come before rank 0 begins the next round
  die(0);
  die(0);
  die(2);
  const std::string job = meet(store, 3);
  EXPECT_NE(meet(store, 3), job);
  die(0);
  die(1);
  die(2);
  meet(store, 2);  // of another size
}

TEST(AddressExchange, ANumberOfARoundThatIsNoneIsNamed) {
  for (const char* number : {"many", "", "0", "1 "}) {
    const auto store = make_memory_store();
    store->set("round", number);
    try {
      comm::AddressExchange(store, 1, 2, 5s).job();
      FAIL() << "met";
    } catch (const RendezvousError& error) {
      const std::string expected = std::string("the store memory returns \"") + number + "\" for \"round\"";
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
  }
}

TEST(AddressExchange, ARankThatHasGivenUpBeforeItsRankZeroCameMayComeAgain) {
  const auto store = make_memory_store();
  comm::AddressExchange wrong(store, 1, 2, 10s);
  EXPECT_THROW(wrong.attempt([] { throw InvalidArgumentError("a wrong setting", {}); }),
               InvalidArgumentError);
  std::thread one([&] {
    comm::AddressExchange again(store, 1, 2, 30s);
    again.job();
    EXPECT_EQ(again.offers("one").size(), 2u);
  });
  // The key of the refusal is gone once rank 1 waits.
  while (make_prefix_store("round 1", store)->wait({"called off"}, {}).empty()) std::this_thread::yield();
  comm::AddressExchange zero(store, 0, 2, 30s);
  zero.job();
  EXPECT_EQ(zero.offers("zero").size(), 2u);
  one.join();
}

/// What rank 1 hears where rank 0's `meet` throws.
std::string reason_heard(const std::function<void()>& meet) {
  const auto store = make_memory_store();
  std::thread zero = rank_zero(store, [&](comm::AddressExchange& address_exchange) {
    EXPECT_ANY_THROW(address_exchange.attempt(meet));
  });
  comm::AddressExchange one(store, 1, 2, 30s);
  one.job();
  one.offers("one");
  zero.join();
  const auto deadline = Deadline::after(20s);
  while (!one.is_off() && !deadline.passed()) std::this_thread::sleep_for(10ms);
  try {
    one.attempt([] { throw std::runtime_error("another reason"); });
  } catch (const std::exception& error) {
    return error.what();
  }
  return "met";
}

TEST(AddressExchange, WhoCallsItOffIsHeardAlsoByThoseThatHaveAllOffers) {
  EXPECT_EQ(reason_heard([] { throw std::runtime_error("its disk is full"); }),
            "rank 0 has given up: its disk is full [K110]");
}

}  // namespace
}  // namespace kolo

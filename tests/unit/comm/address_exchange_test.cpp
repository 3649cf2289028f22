// AddressExchange: the keys that ranks write into a store and read from it before they connect.
#include "comm/address_exchange.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <stdexcept>
#include <thread>

#include "kolo/error.hpp"

namespace kolo {
namespace {

using namespace std::chrono_literals;

/// Rank 0 of two ranks: exchanges addresses, then runs `then`.
std::thread rank_zero(Store& store, const std::function<void(comm::AddressExchange&)>& then) {
  return std::thread([&store, then] {
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
      comm::AddressExchange address_exchange(*store, rank, kRanks, 30s);
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
  std::thread zero = rank_zero(*store, [](comm::AddressExchange&) {});
  comm::AddressExchange first(*store, 1, 2, 30s);
  first.job();
  first.offers("one");
  zero.join();
  comm::AddressExchange second(*store, 1, 2, 30s);
  try {
    second.job();
    FAIL() << "met";
  } catch (const RendezvousError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("two processes have come to memory as rank 1 of 2"), std::string::npos) << text;
    const std::string pid = std::to_string(::getpid());
    EXPECT_NE(text.find("first process " + pid), std::string::npos) << text;
    EXPECT_NE(text.find("then process " + pid), std::string::npos) << text;
  }
}

/// What rank 1 hears where rank 0's `meet` throws.
std::string reason_heard(const std::function<void()>& meet) {
  const auto store = make_memory_store();
  std::thread zero = rank_zero(*store, [&](comm::AddressExchange& address_exchange) {
    EXPECT_ANY_THROW(address_exchange.attempt(meet));
  });
  comm::AddressExchange one(*store, 1, 2, 30s);
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
            "rank 0 has given up: its disk is full");
  EXPECT_EQ(reason_heard([] { throw 42; }), "rank 0 has given up: its store threw no std::exception");
}

}  // namespace
}  // namespace kolo

// RollCall: the keys that ranks write into a store and read from it before they connect.
#include "comm/roll_call.hpp"

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
std::thread rank_zero(Store& store, const std::function<void(RollCall&)>& then) {
  return std::thread([&store, then] {
    RollCall roll_call(store, 0, 2, 30s);
    roll_call.job();
    roll_call.offers("zero");
    then(roll_call);
  });
}

TEST(RollCall, TellsAllWhatEachOffersHoweverMuchThatIs) {
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
      RollCall roll_call(*store, rank, kRanks, 30s);
      jobs[static_cast<std::size_t>(rank)] = roll_call.job();
      heard[static_cast<std::size_t>(rank)] = roll_call.offers(offer(rank));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& offers : heard) EXPECT_EQ(offers, (std::vector{offer(0), offer(1), offer(2)}));
  for (const std::string& job : jobs) EXPECT_EQ(job, jobs[0]);
  EXPECT_FALSE(jobs[0].empty());
}

TEST(RollCall, WhoComesAsARankThatHasComeIsNamed) {
  const auto store = make_memory_store();
  std::thread zero = rank_zero(*store, [](RollCall&) {});
  RollCall first(*store, 1, 2, 30s);
  first.job();
  first.offers("one");
  zero.join();
  RollCall second(*store, 1, 2, 30s);
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

TEST(RollCall, WhoCallsItOffIsHeardAlsoByThoseThatHaveAllOffers) {
  const auto store = make_memory_store();
  std::thread zero = rank_zero(*store, [](RollCall& roll_call) {
    EXPECT_THROW(roll_call.attempt([] { throw std::runtime_error("its disk is full"); }), std::runtime_error);
  });
  RollCall one(*store, 1, 2, 30s);
  one.job();
  one.offers("one");
  zero.join();
  const auto deadline = Deadline::after(20s);
  while (!one.is_off() && !deadline.passed()) std::this_thread::sleep_for(10ms);
  try {
    one.attempt([] { throw std::runtime_error("another reason"); });
    FAIL() << "met";
  } catch (const RendezvousError& error) {
    EXPECT_STREQ(error.what(), "rank 0 has given up: its disk is full");
  }
}

}  // namespace
}  // namespace kolo

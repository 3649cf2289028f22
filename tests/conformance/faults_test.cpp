// Links that are slow, stall or break, by fault injection of the inproc transport.
#include "transport/inproc/faults.hpp"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "support/cluster.hpp"

namespace kolo::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string job_of(const std::shared_ptr<Store>& store) {
  const std::string size_and_job = make_prefix_store("round 1", store)->get("job", seconds(5));
  return size_and_job.substr(size_and_job.find(' ') + 1);
}

class Cleared {
 public:
  explicit Cleared(std::shared_ptr<Store> store) : store_(std::move(store)) {}
  ~Cleared() { transport::inproc::clear_faults(job_of(store_)); }

 private:
  std::shared_ptr<Store> store_;
};

TEST(Faults, ADelayedLinkOnlyTakesLonger) {
  const auto store = make_memory_store();
  const Cleared cleared(store);
  expect_ranks({.size = 3, .timeout = seconds(10), .store = store}, [&](Communicator& c) {
    if (c.rank() == 0) transport::inproc::set_delay(job_of(store), 0, 1, milliseconds(20));
    c.barrier();
    for (const std::size_t count : {std::size_t{3}, std::size_t{100'000}}) {
      std::vector<int> data(count, c.rank() + 1);
      c.all_reduce(data);
      for (const int value : data) {
        if (value != 6) throw std::runtime_error("wrong sum over a slow link");
      }
    }
  });
}

TEST(Faults, AStallThatEndsBeforeTheDeadlineHarmsNothing) {
  const auto store = make_memory_store();
  const Cleared cleared(store);
  std::thread healer;
  expect_ranks({.size = 4, .timeout = seconds(10), .store = store}, [&](Communicator& c) {
    if (c.rank() == 2) {
      transport::inproc::set_stalled(job_of(store), 2, true);
      healer = std::thread([&] {
        std::this_thread::sleep_for(milliseconds(300));
        transport::inproc::set_stalled(job_of(store), 2, false);
      });
    }
    std::vector<float> data(200'000, 1.0f);
    c.all_reduce(data);
    if (data[0] != 4.0f || data[199'999] != 4.0f) throw std::runtime_error("wrong sum after a stall");
  });
  healer.join();
}

TEST(Faults, AStalledRankIsNamedAtTheDeadline) {
  for (const std::size_t count : {std::size_t{4}, std::size_t{300'000}}) {
    const auto store = make_memory_store();
    const Cleared cleared(store);
    const Outcome outcome =
        run_ranks({.size = 4, .timeout = milliseconds(600), .store = store}, [&](Communicator& c) {
          std::vector<float> data(count);
          c.all_reduce(data);
          if (c.rank() == 0) transport::inproc::set_stalled(job_of(store), 3, true);
          for (int i = 0; i < 1000; ++i) c.all_reduce(data);
        });
    for (int r = 0; r < 3; ++r) {
      const std::string& error = outcome.errors[static_cast<std::size_t>(r)];
      EXPECT_NE(error.find("rank 3 does not answer"), std::string::npos) << "rank " << r << ": " << error;
    }
    EXPECT_FALSE(outcome.errors[3].empty());
  }
}

TEST(Faults, ALostRankIsNamed) {
  const auto store = make_memory_store();
  const Cleared cleared(store);
  const Outcome outcome =
      run_ranks({.size = 4, .timeout = seconds(20), .store = store}, [&](Communicator& c) {
        std::vector<float> data(100'000);
        c.all_reduce(data);
        if (c.rank() == 1) transport::inproc::lose(job_of(store), 1);
        for (int i = 0; i < 100'000; ++i) c.all_reduce(data);
      });
  for (const int r : {0, 2, 3}) {
    const std::string& error = outcome.errors[static_cast<std::size_t>(r)];
    EXPECT_NE(error.find("lost rank 1"), std::string::npos) << "rank " << r << ": " << error;
  }
  EXPECT_FALSE(outcome.errors[1].empty());
}

// A failed operation must not access the caller's memory any more, and must not let a peer read later
// contents.
TEST(Faults, MemoryIsTheCallersAgainAfterAFailure) {
  for (int round = 0; round < 10; ++round) {
    const auto store = make_memory_store();
    const Cleared cleared(store);
    std::atomic<int> wrong{0};
    run_ranks({.size = 3, .timeout = milliseconds(200), .store = store}, [&](Communicator& c) {
      std::vector<int> data(400'000, 1);
      c.barrier();
      if (c.rank() == 0) transport::inproc::set_stalled(job_of(store), 1, true);
      try {
        for (;;) {
          std::fill(data.begin(), data.end(), 1);
          c.all_reduce(data);
          for (const int value : data) wrong += value != 3;
        }
      } catch (const Error&) {
        std::fill(data.begin(), data.end(), 1000);
        std::this_thread::sleep_for(milliseconds(20));
        for (const int value : data) wrong += value != 1000;
      }
      if (c.rank() == 0) transport::inproc::set_stalled(job_of(store), 1, false);
      std::this_thread::sleep_for(milliseconds(20));
    });
    EXPECT_EQ(wrong, 0);
  }
}

}  // namespace
}  // namespace kolo::test

// Calls that other ranks never make: they end at their deadline, and the error names the rank that is to
// blame.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/cluster.hpp"
#include "support/transports.hpp"

namespace kolo::test {
namespace {

using std::chrono::milliseconds;

class DeadlinesOver : public ::testing::TestWithParam<const char*> {};

TEST_P(DeadlinesOver, ARankThatNeverCallsIsNamedAtTheDeadline) {
  for (const int size : {2, 4}) {
    std::atomic<int> waiting{size - 1};
    const Outcome outcome = run_ranks(
        {.size = size, .transport = GetParam(), .timeout = milliseconds(400)}, [&](Communicator& c) {
          std::vector<float> data(1000);
          if (c.rank() == 1) {
            while (waiting > 0) std::this_thread::sleep_for(milliseconds(5));
            return;
          }
          try {
            c.all_reduce(data);
          } catch (const TimeoutError& error) {
            --waiting;
            if (error.context().peer != 1)
              throw std::runtime_error(std::string("blames another: ") + error.what());
            if (error.context().collective != "all_reduce" || error.context().sequence != 2)
              throw std::runtime_error("another call");
            throw;
          } catch (...) {
            --waiting;
            throw;
          }
        });
    for (int r = 0; r < size; ++r) {
      const std::string& error = outcome.errors[static_cast<std::size_t>(r)];
      if (r == 1) continue;
      EXPECT_NE(error.find("rank 1 is alive but has not made this call"), std::string::npos) << error;
    }
  }
}

// Rank 2 has waited longer, for rank 0, but rank 0 waits for rank 1.
TEST_P(DeadlinesOver, WhoIsHeldUpIsNotBlamed) {
  std::atomic<bool> over{false};
  const Outcome outcome = run_ranks({.size = 3, .transport = GetParam(), .timeout = std::chrono::seconds(2)},
                                    [&](Communicator& c) {
                                      Communicator part = c.split(c.rank() == 1 ? 1 : 0);
                                      std::vector<float> data(10);
                                      if (c.rank() == 0) {
                                        std::this_thread::sleep_for(milliseconds(300));
                                        const struct AtEnd {
                                          std::atomic<bool>& is_over;
                                          ~AtEnd() { is_over = true; }
                                        } at_end{over};
                                        c.all_reduce(data);
                                      } else if (c.rank() == 1) {
                                        while (!over) std::this_thread::sleep_for(milliseconds(10));
                                      } else {
                                        part.all_reduce(data);
                                      }
                                    });
  for (const int r : {0, 2}) {
    const std::string& error = outcome.errors[static_cast<std::size_t>(r)];
    EXPECT_NE(error.find("rank 1 is alive but has not made this call"), std::string::npos) << error;
  }
}

// As where one rank has skipped a step of training: each waits for the other one, in calls of two groups.
TEST_P(DeadlinesOver, RanksInCallsOfDifferentGroupsEndAtTheDeadline) {
  const Outcome outcome =
      run_ranks({.size = 2, .transport = GetParam(), .timeout = milliseconds(600)}, [](Communicator& c) {
        Communicator other = c.split(0);
        std::vector<float> data(10);
        (c.rank() == 0 ? c : other).all_reduce(data);
      });
  for (const std::string& error : outcome.errors)
    EXPECT_NE(error.find(", waiting in another call, has not made this one"), std::string::npos) << error;
}

INSTANTIATE_TEST_SUITE_P(Conformance, DeadlinesOver, kTransports, kTransportNames);

}  // namespace
}  // namespace kolo::test

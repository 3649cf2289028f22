#include "support/cluster.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "support/require.hpp"
#include "support/watchdog.hpp"

namespace kolo::test {

bool Outcome::all_ok() const {
  for (const std::string& error : errors) {
    if (!error.empty()) return false;
  }
  return true;
}

std::string Outcome::describe() const {
  std::string text;
  for (std::size_t r = 0; r < errors.size(); ++r) {
    if (!errors[r].empty()) text += "rank " + std::to_string(r) + ": " + errors[r] + "\n";
  }
  return text;
}

Outcome run_ranks(const ClusterOptions& options, const std::function<void(Communicator&)>& body) {
  const Watchdog watchdog(options.watchdog);
  const auto store = options.store ? options.store : make_memory_store();
  Outcome outcome;
  outcome.errors.resize(static_cast<std::size_t>(options.size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        auto communicator = Communicator::create(store, rank, options.size,
                                                 {.timeout = options.timeout,
                                                  .transports = options.transport,
                                                  .measure_costs = options.measure_costs});
        body(communicator);
      } catch (const std::exception& error) {
        outcome.errors[static_cast<std::size_t>(rank)] =
            *error.what() ? error.what() : "an exception without words";
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return outcome;
}

void expect_ranks(const ClusterOptions& options, const std::function<void(Communicator&)>& body) {
  const Outcome outcome = run_ranks(options, body);
  EXPECT_TRUE(outcome.all_ok()) << options.size << " ranks over " << options.transport << ":\n"
                                << outcome.describe();
}

void expect_mismatch(const char* transport, int size, const std::function<void(Communicator&)>& disagree,
                     const std::vector<std::string>& said) {
  constexpr auto kSoon = std::chrono::seconds(5);  // and half the timeout, on a busy machine
  const Outcome outcome =
      run_ranks({.size = size, .transport = transport, .timeout = std::chrono::seconds(20)},
                [&](Communicator& communicator) {
                  const auto begin = std::chrono::steady_clock::now();
                  try {
                    disagree(communicator);
                    communicator.barrier();
                  } catch (const MismatchError&) {
                    if (std::chrono::steady_clock::now() - begin < kSoon) throw;
                    throw std::runtime_error("learnt of it only at the deadline");
                  }
                });
  for (int r = 0; r < size; ++r) {
    const std::string& error = outcome.errors[static_cast<std::size_t>(r)];
    EXPECT_NE(error.find("disagree"), std::string::npos) << "rank " << r << ": '" << error << "'";
    for (const std::string& word : said)
      EXPECT_NE(error.find(word), std::string::npos) << "rank " << r << ": " << error;
  }
}

void require_refused(Communicator& c, const std::vector<std::string>& expected,
                     const std::function<void()>& call) {
  const Counters before = c.counters();
  std::string said = "nothing";
  try {
    call();
  } catch (const InvalidArgumentError& error) {
    said = error.what();
  }
  for (const std::string& words : expected)
    require(said.find(words) != std::string::npos, "'" + said + "' lacks '" + words + "'");
  require(c.counters().operations == before.operations, "a refused call began");
}

void in_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      try {
        body(t);
      } catch (...) {
        errors[static_cast<std::size_t>(t)] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace kolo::test

// Ranks as threads: runs a function once per rank of a communicator, in this process, with a watchdog.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kolo/kolo.hpp"

namespace kolo::test {

struct ClusterOptions {
  int size = 2;
  std::string transport = "inproc";
  std::chrono::nanoseconds timeout = std::chrono::seconds(30);
  bool measure_costs = false;  ///< most of a start, and all of it with a sanitizer: for tests of the measured
  std::chrono::seconds watchdog{100};      ///< after this the process prints what hangs, and aborts
  std::shared_ptr<Store> store = nullptr;  ///< store of the ranks; null: a new in-memory store
};

/// The result of each rank's function: the text of its exception, empty without one.
struct Outcome {
  std::vector<std::string> errors;
  bool all_ok() const;
  std::string describe() const;
};

/// Runs `body` as every rank, each in its own thread; returns when all have ended.
Outcome run_ranks(const ClusterOptions& options, const std::function<void(Communicator&)>& body);

/// As run_ranks(), and fails the current test if a rank threw.
void expect_ranks(const ClusterOptions& options, const std::function<void(Communicator&)>& body);

/// Runs each rank's calls. A rank whose call ended before the mismatch was found makes one more call. Every
/// rank must soon fail with an error that describes both calls.
void expect_mismatch(const char* transport, int size, const std::function<void(Communicator&)>& disagree,
                     const std::vector<std::string>& said);

/// Throws unless `call` fails with an InvalidArgumentError whose text contains all of `expected`, and begins
/// no operation.
void require_refused(Communicator& c, const std::vector<std::string>& expected,
                     const std::function<void()>& call);

/// Runs `body` in threads and rethrows an exception of one of them.
void in_threads(int count, const std::function<void(int)>& body);

}  // namespace kolo::test

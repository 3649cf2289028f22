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
  std::chrono::seconds watchdog{100};      ///< after this the process prints what hangs, and aborts
  std::shared_ptr<Store> store = nullptr;  ///< where the ranks meet; null: one of their own
};

/// What became of each rank's function: the text of the exception that left it, empty for none.
struct Outcome {
  std::vector<std::string> errors;
  bool all_ok() const;
  std::string describe() const;
};

/// Every rank runs `body` in a thread of its own; returns when all have ended.
Outcome run_ranks(const ClusterOptions& options, const std::function<void(Communicator&)>& body);

/// The same, and fails the current test where a rank threw.
void expect_ranks(const ClusterOptions& options, const std::function<void(Communicator&)>& body);

/// Runs what each rank does, then one more call for ranks whose part of the first ended before the
/// disagreement was found; every rank must soon end with an error that says both sides.
void expect_mismatch(const char* transport, int size, const std::function<void(Communicator&)>& disagree,
                     const std::vector<std::string>& said);

/// Runs `body` in threads and rethrows what one of them threw.
void in_threads(int count, const std::function<void(int)>& body);

}  // namespace kolo::test

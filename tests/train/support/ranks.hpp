// Ranks as threads of the test, meeting in an in-memory store.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "kolo/communicator.hpp"

namespace kolo::test {

/// Runs `body` as each of `ranks` ranks and returns what each threw (null: nothing). Each rank's communicator
/// is destroyed as soon as its body ends. A watchdog ends the test program when they take longer than a
/// minute.
std::vector<std::exception_ptr> run_ranks(int ranks, const std::function<void(Communicator&)>& body,
                                          const std::function<void(Options&, int rank)>& adjust = {});

/// Which of them this thread is; 0 in any other thread.
int rank_of_thread();

/// The same, rethrowing the first error.
void run_all(int ranks, const std::function<void(Communicator&)>& body);

/// What() of an error; empty for none.
std::string message(const std::exception_ptr& error);

/// What `action` throws as InvalidArgumentError or MismatchError; empty for nothing.
std::string refusal_of(const std::function<void()>& action);

/// Runs `body`, which has to throw on every rank within 10 seconds, and returns what rank 0 threw.
std::string error_of_all(int ranks, const std::function<void(Communicator&)>& body);

}  // namespace kolo::test

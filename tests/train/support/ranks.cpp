#include "train/support/ranks.hpp"

#include <thread>

#include "kolo/error.hpp"
#include "support/watchdog.hpp"

namespace kolo::test {
namespace {

constexpr auto kTimeout = std::chrono::seconds(20);

thread_local int own_rank = 0;

}  // namespace

std::vector<std::exception_ptr> run_ranks(int ranks, const std::function<void(Communicator&)>& body,
                                          const std::function<void(Options&, int rank)>& adjust) {
  const Watchdog watchdog(std::chrono::seconds(60));
  const auto store = make_memory_store();
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      own_rank = rank;
      try {
        Options options;
        options.timeout = kTimeout;
        if (adjust) adjust(options, rank);
        Communicator communicator = Communicator::create(store, rank, ranks, options);
        body(communicator);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

int rank_of_thread() {
  return own_rank;
}

void run_all(int ranks, const std::function<void(Communicator&)>& body) {
  for (const std::exception_ptr& error : run_ranks(ranks, body)) {
    if (error) std::rethrow_exception(error);
  }
}

std::string message(const std::exception_ptr& error) {
  if (!error) return {};
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  }
}

std::string refusal_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const InvalidArgumentError& error) {
    return error.what();
  } catch (const MismatchError& error) {
    return error.what();
  }
  return {};
}

std::string error_of_all(int ranks, const std::function<void(Communicator&)>& body) {
  const auto errors =
      run_ranks(ranks, body, [](Options& options, int) { options.timeout = std::chrono::seconds(10); });
  for (const auto& error : errors) {
    if (message(error).empty()) return "some rank threw nothing";
  }
  return message(errors[0]);
}

}  // namespace kolo::test

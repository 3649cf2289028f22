// Meets workers as they come, on a thread of its own, so that a server goes on serving those that are there.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kolo/communicator.hpp"
#include "methods/parameter_server/meeting.hpp"

namespace kolo::methods {

class WorkerAcceptor {
 public:
  struct Arrival {
    int worker;
    Communicator communicator;  ///< invalid if the worker has not come
    std::string problem;        ///< why not
  };

  /// Meets these workers, each for `patience` at most.
  WorkerAcceptor(std::shared_ptr<Store> store, int server, std::uint64_t generation, std::vector<int> workers,
                 Options options, std::chrono::nanoseconds patience);
  ~WorkerAcceptor();
  WorkerAcceptor(const WorkerAcceptor&) = delete;
  WorkerAcceptor& operator=(const WorkerAcceptor&) = delete;

  /// Those that have come, or not, since the last call; waits for one, for `timeout` at most. Throws what the
  /// store throws.
  std::vector<Arrival> take(std::chrono::nanoseconds timeout);

 private:
  void run();
  void meet_one(int worker);
  void put(Arrival arrival);
  bool is_stopped();

  const std::shared_ptr<Store> store_;
  const int server_;
  const std::uint64_t generation_;
  std::vector<int> workers_;  ///< that have not come yet
  const Options options_;
  const std::chrono::steady_clock::time_point end_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Arrival> arrivals_;
  std::exception_ptr error_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace kolo::methods

// ReplicaThreads: one thread for each replica, which computes all that the replica does.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace kolo::methods {

/// One thread at a time calls run(). All that it wrote before is seen by the jobs, and all that they wrote by
/// the caller afterwards: the mutex is taken on both ways.
class ReplicaThreads {
 public:
  using Job = std::function<void(std::size_t replica)>;

  /// `operator_threads`: what at::set_num_threads() is told in each thread.
  ReplicaThreads(std::size_t count, int operator_threads);
  ~ReplicaThreads();
  ReplicaThreads(const ReplicaThreads&) = delete;
  ReplicaThreads& operator=(const ReplicaThreads&) = delete;

  /// Calls `job` in the first `count` threads at once, with the caller's thread-local state of libtorch (grad
  /// mode, autocast, ...). Returns what each threw (null: nothing) when all are done.
  std::vector<std::exception_ptr> run(std::size_t count, const Job& job);

 private:
  void serve(std::size_t index, int operator_threads);
  void stop();

  std::mutex mutex_;
  std::condition_variable begun_, done_;
  const Job* job_ = nullptr;  ///< of the run that is under way
  std::uint64_t runs_ = 0;    ///< begun so far
  std::size_t width_ = 0;     ///< number of threads that take part in the run under way
  std::size_t waited_for_ = 0;
  bool is_stopped_ = false;
  std::vector<std::exception_ptr> errors_;
  std::vector<std::thread> threads_;  ///< last, as they use the rest
};

}  // namespace kolo::methods

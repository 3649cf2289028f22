#include "methods/data_parallel/replica_threads.hpp"

#include "kolo/train/libtorch.hpp"

#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>

#include <utility>

namespace kolo::methods {

ReplicaThreads::ReplicaThreads(std::size_t count, int operator_threads) : waited_for_(count) {
  const int own = at::get_num_threads();
  try {
    for (std::size_t i = 0; i < count; ++i) {
      threads_.emplace_back([this, i, operator_threads] { serve(i, operator_threads); });
    }
  } catch (...) {
    stop();
    at::set_num_threads(own);
    throw;
  }
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return waited_for_ == 0; });
  // The number that a thread sets for itself is also the one that new threads of the process begin with.
  at::set_num_threads(own);
}

ReplicaThreads::~ReplicaThreads() {
  stop();
}

void ReplicaThreads::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  begun_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::vector<std::exception_ptr> ReplicaThreads::run(std::size_t count, const Job& job) {
  const at::ThreadLocalState state;
  const Job with_state = [&](std::size_t replica) {
    const at::ThreadLocalStateGuard guard(state);
    job(replica);
  };
  std::unique_lock lock(mutex_);
  job_ = &with_state;
  width_ = waited_for_ = count;
  errors_.assign(count, nullptr);
  ++runs_;
  begun_.notify_all();
  done_.wait(lock, [this] { return waited_for_ == 0; });
  job_ = nullptr;
  return std::move(errors_);
}

void ReplicaThreads::serve(std::size_t index, int operator_threads) {
  at::get_num_threads();  // with its first use libtorch gives a thread the process's number, in place of its
                          // own
  at::set_num_threads(operator_threads);
  std::unique_lock lock(mutex_);
  std::uint64_t seen = runs_;
  while (true) {
    if (--waited_for_ == 0) done_.notify_all();
    begun_.wait(lock, [&] {
      if (is_stopped_) return true;
      return std::exchange(seen, runs_) != runs_ && index < width_;
    });
    if (is_stopped_) return;
    const Job& job = *job_;
    lock.unlock();
    std::exception_ptr error;
    try {
      job(index);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    errors_[index] = std::move(error);
  }
}

}  // namespace kolo::methods

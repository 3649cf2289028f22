#include "gradients/averaging_thread.hpp"

#include <utility>

#include "ranks/agreement.hpp"

namespace kolo::train {

AveragingThread::AveragingThread(Communicator communicator)
    : communicator_(std::move(communicator)), thread_([this] { run(); }) {}

AveragingThread::~AveragingThread() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void AveragingThread::start(AveragingJob& job) {
  job.ready.emplace(job.device);
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(&job);
  }
  changed_.notify_all();
}

bool AveragingThread::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return jobs_.empty(); });
  if (error_) std::rethrow_exception(error_);
  return std::exchange(are_finite_, true);
}

void AveragingThread::settle() noexcept {
  try {
    wait();
  } catch (...) {
    // The caller of wait() has the error.
  }
}

void AveragingThread::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_stopped_ || !jobs_.empty(); });
    if (is_stopped_) return;
    AveragingJob& job = *jobs_.front();
    if (!error_) {
      lock.unlock();
      bool finite = false;
      std::exception_ptr error;
      try {
        finite = job.ready->go_on([&] { return job.average(communicator_); });
      } catch (...) {
        error = tell_others(communicator_);  // they may be in the middle of this job
      }
      lock.lock();
      job.ended = std::chrono::steady_clock::now();
      are_finite_ = are_finite_ && finite;
      error_ = error;
    }
    jobs_.pop_front();
    changed_.notify_all();
  }
}

}  // namespace kolo::train

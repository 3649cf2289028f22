#include "ddp/hook_thread.hpp"

#include <bit>
#include <cstdint>
#include <span>
#include <utility>

#include "ddp/failure.hpp"

namespace kolo::train {
namespace {

bool are_finite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7F800000;
  std::uint32_t unbounded = 0;
  for (const float value : values)
    unbounded |= (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent ? 1u : 0u;
  return unbounded == 0;
}

}  // namespace

HookThread::HookThread(std::shared_ptr<GradientHook> hook, Communicator communicator)
    : hook_(std::move(hook)), communicator_(std::move(communicator)), thread_([this] { run(); }) {}

HookThread::~HookThread() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void HookThread::start(HookJob& job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(&job);
  }
  changed_.notify_all();
}

bool HookThread::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return jobs_.empty(); });
  if (error_) std::rethrow_exception(error_);
  return std::exchange(are_finite_, true);
}

void HookThread::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_stopped_ || !jobs_.empty(); });
    if (is_stopped_) return;
    HookJob& job = *jobs_.front();
    if (!error_) {
      lock.unlock();
      bool finite = false;
      std::exception_ptr error;
      try {
        hook_->average(job.bucket, communicator_);
        finite = are_finite(job.bucket.gradients);
      } catch (const std::exception& exception) {
        error = std::current_exception();
        // The other ranks may be in the middle of this bucket.
        if (!comes_to_all(exception)) communicator_.abort(exception.what());
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

// HookThread: averages buckets by a gradient hook, one after another, while backward goes on.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "kolo/communicator.hpp"
#include "kolo/train/gradient_hook.hpp"

namespace kolo::train {

/// A bucket that a hook averages. Its owner keeps it in place until HookThread::wait() has returned.
struct HookJob {
  GradientBucket bucket;
  std::chrono::steady_clock::time_point ended{};  ///< when it was averaged
};

/// One thread starts jobs and waits for them. A hook makes several calls and waits for each, so that it needs
/// a thread of its own; buckets come in the same order on all ranks, so one is enough.
class HookThread {
 public:
  /// The calls of `hook` go over `communicator`, which nothing else uses.
  HookThread(std::shared_ptr<GradientHook> hook, Communicator communicator);
  /// Waits for the job that is under way; those behind it are left out.
  ~HookThread();
  HookThread(const HookThread&) = delete;
  HookThread& operator=(const HookThread&) = delete;

  void start(HookJob& job);
  /// Blocks until all jobs are over. Throws the first error of the hook; the jobs behind that one have been
  /// left out. Returns whether all averages are finite.
  bool wait();
  GradientHook& hook() noexcept { return *hook_; }

 private:
  void run();

  std::shared_ptr<GradientHook> hook_;
  Communicator communicator_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<HookJob*> jobs_;  ///< the first one is under way
  std::exception_ptr error_;
  bool are_finite_ = true;
  bool is_stopped_ = false;
  std::thread thread_;  ///< last, as it uses the rest
};

}  // namespace kolo::train

// AveragingThread: averages gradients by several calls in a row, one job after another, while backward goes
// on.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "kolo/communicator.hpp"
#include "libtorch/device.hpp"

namespace kolo::train {

/// Its owner keeps it in place until AveragingThread::wait() has returned.
struct AveragingJob {
  /// Collective; may block. Returns whether all averages are finite.
  std::function<bool(Communicator&)> average;
  at::Device device = at::kCPU;                   ///< of the gradients
  std::optional<StreamPoint> ready = {};          ///< set by AveragingThread::start()
  std::chrono::steady_clock::time_point ended{};  ///< when it was over
};

/// One thread starts jobs and waits for them. A hook makes several calls and waits for each, and so does a
/// sparse sum: they need a thread of their own. Jobs come in the same order on all ranks, so one is enough.
class AveragingThread {
 public:
  /// The jobs' calls go over `communicator`, which nothing else uses.
  explicit AveragingThread(Communicator communicator);
  /// Waits for the job that is under way; those behind it are left out.
  ~AveragingThread();
  AveragingThread(const AveragingThread&) = delete;
  AveragingThread& operator=(const AveragingThread&) = delete;

  /// Of the jobs' calls.
  Communicator& communicator() noexcept { return communicator_; }
  /// The job begins after what this thread's current stream of its device holds.
  void start(AveragingJob& job);
  /// Blocks until all jobs are over. Throws the first error of a job; the jobs behind that one have been left
  /// out. Returns whether all averages are finite.
  bool wait();
  /// The same, but swallows the error.
  void settle() noexcept;

 private:
  void run();

  Communicator communicator_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<AveragingJob*> jobs_;  ///< the first one is under way
  std::exception_ptr error_;
  bool are_finite_ = true;
  bool is_stopped_ = false;
  std::thread thread_;  ///< last, as it uses the rest
};

}  // namespace kolo::train

// SliceThread: averages buckets slice by slice, in the order in which the next forward waits for them, while
// backward and that forward go on.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "kolo/communicator.hpp"

namespace kolo::train {

/// No slice is longer: a bucket that is needed sooner waits for those that are under way.
constexpr std::uint64_t kSliceBytes = 4u << 20;

/// A bucket in a step.
struct SlicedBucket {
  std::uint64_t slices = 1;
  double slice_seconds = 0;  ///< that each takes on the links
  double ready = 0;          ///< seconds from the begin of backward until its gradients are there
  std::size_t use = 0;       ///< its place in the order in which forward first uses the buckets
};

/// The buckets whose slices follow one another, a number for each slice. Whenever the links are free, the
/// bucket goes on that is ready and used soonest. One that overtakes another has to be ready for `margin`
/// seconds by then: what is late in a step holds up all that is planned behind it.
std::vector<std::uint64_t> plan_slices(std::span<const SlicedBucket> buckets, double margin);

/// A communicator runs the calls that are started on it side by side. So it is the thread that makes buckets
/// overtake one another: it has two slices under way, and starts the next one of the plan when one is done.
class SliceThread {
 public:
  using Clock = std::chrono::steady_clock;

  /// How a bucket of a step went.
  struct Times {
    Clock::time_point started = {};  ///< its first slice
    Clock::time_point ended = {};    ///< its last one
  };

  /// The averages go over `communicator`, which nothing else uses. The memory must outlive the object.
  /// `wire` is how float32 travels.
  SliceThread(Communicator communicator, std::span<const Buffer> buckets, std::optional<Wire> wire);
  /// Waits for the slices that are under way; those behind them are left out.
  ~SliceThread();
  SliceThread(const SliceThread&) = delete;
  SliceThread& operator=(const SliceThread&) = delete;

  /// How many slices a bucket has.
  std::uint64_t slices_of(std::size_t bucket) const;
  /// A step begins, the one before being over. `plan` names the bucket of each slice, and is the same on all
  /// ranks.
  void begin(std::vector<std::uint64_t> plan);
  /// The bucket's own gradients are there, on a device after what `stream` holds: its memory is borrowed
  /// until wait().
  void start(std::size_t bucket, void* stream);
  /// Blocks until the bucket's average is in place. Throws the first error of any slice.
  void wait(std::size_t bucket);

  /// Of a bucket that was waited for.
  Times times(std::size_t bucket);
  /// For how long slices kept the links busy in the step that is over.
  std::chrono::nanoseconds busy();

 private:
  struct Bucket {
    Buffer memory;
    void* stream = nullptr;
    bool is_ready = false;
    std::uint64_t next_slice = 0;
    std::uint64_t slices_done = 0;
    Times times = {};
  };
  struct Slice {
    std::size_t bucket;
    Work work;
    Clock::time_point started;
  };

  void run();
  bool can_start() const;
  Slice start_next();
  void finish(const Slice& slice, std::exception_ptr error);

  Communicator communicator_;
  const std::optional<Wire> wire_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Bucket> buckets_;
  std::vector<std::uint64_t> plan_;
  std::size_t next_ = 0;  ///< in plan_
  std::chrono::nanoseconds busy_{0};
  Clock::time_point last_end_;
  std::exception_ptr error_;
  bool is_stopped_ = false;
  std::thread thread_;  ///< last, as it uses the rest
};

}  // namespace kolo::train

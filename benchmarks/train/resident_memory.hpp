// The resident memory of this process, and its peak while something runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace kolo::bench {

/// Bytes. Of memory that several processes map each counts its share (Pss of /proc/self/smaps_rollup), as
/// ranks of a host map each other's.
double resident_bytes();

/// Looks at it every millisecond, from a thread of its own. That costs time: what is timed is not to run
/// meanwhile.
class ResidentPeak {
 public:
  ResidentPeak();
  ~ResidentPeak();
  /// The largest so far.
  double bytes() const { return peak_; }

 private:
  std::atomic<double> peak_ = 0;
  std::atomic<bool> is_over_ = false;
  std::thread thread_;
};

}  // namespace kolo::bench

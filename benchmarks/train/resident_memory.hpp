// The resident memory of this process, and its peak while something runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace kolo::bench {

/// Bytes. Memory that several processes map counts in parts (Pss of /proc/self/smaps_rollup), because ranks
/// of a host map each other's memory.
double resident_bytes();

/// Polls every millisecond in a thread of its own. This costs time, so nothing should be timed meanwhile.
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

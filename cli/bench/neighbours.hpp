// Neighbours: busy processes beside the ranks, as on a machine that other people use too.
#pragma once

#include <sys/types.h>

#include <vector>

namespace kolo::bench {

/// Processes that count, at normal priority: all the time, or for 5 ms in each 10. They end with this object,
/// and with the thread that has made it.
class Neighbours {
 public:
  /// Throws std::system_error.
  Neighbours(int count, bool in_bursts);
  ~Neighbours();
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

 private:
  void stop();

  std::vector<pid_t> processes_;
};

}  // namespace kolo::bench

// Neighbours: busy processes beside the ranks, as on a machine that other people use too.
#pragma once

#include <sys/types.h>

#include <utility>
#include <vector>

namespace kolo::bench {

/// Which processes are busy beside the ranks. A value.
struct Neighbourhood {
  int count = 0;
  std::pair<int, int> blip_us;  ///< how long each is busy, in every so many us; 0: all the time
};

/// Processes that count, at normal priority. They end with this object, and with the thread that has made it.
class Neighbours {
 public:
  /// Throws std::system_error.
  explicit Neighbours(const Neighbourhood& wanted);
  ~Neighbours();
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

 private:
  void stop();

  std::vector<pid_t> processes_;
};

}  // namespace kolo::bench

// The cores that processes may use, by their affinity and by the quotas of their control groups.
#pragma once

#include <sched.h>

#include <bitset>
#include <limits>
#include <string>
#include <vector>

namespace kolo {

inline constexpr std::size_t kMostCores = 8192;  ///< the most that Linux can be built for

/// The cores of one process, or of several together. A value.
struct Cores {
  std::bitset<kMostCores> set;                             ///< by core number
  double quota = std::numeric_limits<double>::infinity();  ///< seconds of core time in a second

  /// How many cores can be busy all the time; at least 1.
  int count() const;
  /// Both processes' cores. Assumes that they share one quota, the smaller one, as ranks in a container do.
  Cores& operator|=(const Cores& other);
};

/// The cores of the calling thread. Thread-safe.
Cores usable_cores();

/// How many processes there are for each core, rounded up, for a process and the `others` that share cores
/// with it. 1 for processes that are each bound to cores of their own.
int processes_a_core(const Cores& own, const std::vector<Cores>& others);

/// "0-3,8", and with a quota "0-3,8/2.5".
std::string to_text(const Cores& cores);

/// The inverse of to_text(); no cores if the text makes no sense. Never throws.
Cores parse_cores(const std::string& text);

/// The smallest quota of a process's control groups (version 1 or 2) and of those around them. `membership`
/// is /proc/self/cgroup; `mount` is what is mounted at /sys/fs/cgroup. Infinite if there is none.
double cgroup_quota(const std::string& membership, const std::string& mount);

/// Moves the calling thread to a core of `some`; then it may run on all of `mine` again.
inline void visit_cores(const cpu_set_t& some, const cpu_set_t& mine) {
  if (sched_setaffinity(0, sizeof some, &some) == 0) sched_setaffinity(0, sizeof mine, &mine);
}

/// Moves the calling thread to number `n` of the cores that it may use, counted round and round. It may leave
/// that core later.
inline void move_to_core(unsigned n) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  if (sched_getaffinity(0, sizeof mine, &mine) != 0 || CPU_COUNT(&mine) < 2) return;
  n %= static_cast<unsigned>(CPU_COUNT(&mine));
  int core = 0;
  while (CPU_ISSET(core, &mine) == 0 || n-- > 0) ++core;
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(core, &only);
  visit_cores(only, mine);
}

/// Moves the calling thread to a core that it may use and that is not `taken`, if there is one; it may come
/// back later.
inline void leave_cores(const cpu_set_t& taken) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  if (sched_getaffinity(0, sizeof mine, &mine) != 0) return;
  cpu_set_t both;
  CPU_AND(&both, &mine, &taken);
  CPU_XOR(&both, &both, &mine);
  if (CPU_COUNT(&both) > 0) visit_cores(both, mine);
}

}  // namespace kolo

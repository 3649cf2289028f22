// The cores that processes may use: by their affinity, and by the quotas of their control groups.
#pragma once

#include <sched.h>

#include <bitset>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

namespace kolo {

inline constexpr std::size_t kMostCores = 8192;  ///< that Linux can be built for

/// Of one process or of several together. A value.
struct Cores {
  std::bitset<kMostCores> set;                             ///< by number
  double quota = std::numeric_limits<double>::infinity();  ///< seconds on cores a second

  /// How many can be busy all the time; at least 1.
  int count() const;
  /// Both processes' cores. They are taken to share one quota, the smaller, as ranks in a container do.
  Cores& operator|=(const Cores& other);
};

/// Those of the calling thread. Thread-safe.
Cores usable_cores();

/// Whether a process shares cores with `others`. Those that each are bound to cores of their own do not.
bool is_crowded(const Cores& own, const std::vector<Cores>& others);

/// "0-3,8", and with a quota "0-3,8/2.5".
std::string to_text(const Cores& cores);

/// What to_text() says of them; no cores where the text makes no sense. Never throws.
Cores parse_cores(const std::string& text);

/// The smallest quota of the control groups (version 1 or 2) that a process is in and of those around them,
/// given its /proc/self/cgroup and what is mounted at /sys/fs/cgroup. Infinite without one.
double cgroup_quota(const std::filesystem::path& membership, const std::filesystem::path& mount);

/// Moves the calling thread to one of `some`; then it may run on all of `mine` again.
inline void visit_cores(const cpu_set_t& some, const cpu_set_t& mine) {
  if (sched_setaffinity(0, sizeof some, &some) == 0) sched_setaffinity(0, sizeof mine, &mine);
}

/// Moves the calling thread to one of the cores that it may use, number n of them counted round and round; it
/// may leave again.
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

/// Moves the calling thread to another core that it may use, if there is one; it may come back later.
inline void leave_core(int core) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  if (sched_getaffinity(0, sizeof mine, &mine) != 0 || CPU_COUNT(&mine) < 2) return;
  cpu_set_t others = mine;
  CPU_CLR(core, &others);
  visit_cores(others, mine);
}

}  // namespace kolo

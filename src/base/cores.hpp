// The cores that this process may use.
#pragma once

#include <sched.h>

#include <algorithm>

namespace kolo {

/// By its affinity; at least 1. Thread-safe.
inline int usable_cores() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  return sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? std::max(CPU_COUNT(&cpus), 1) : 1;
}

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

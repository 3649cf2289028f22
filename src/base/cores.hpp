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

}  // namespace kolo

// Highway's library measures the resolution of the processor's clock when it is loaded: 6 ms of every process
// that uses kolo, and 100 ms if other programs want the cores. Only Highway's benchmark functions need the
// result, and kolo calls none of them. The loader finds the definition below before the library's own.
#include <cstdint>

#include "hwy/nanobenchmark.h"

namespace hwy::platform {

std::uint64_t TimerResolution() {
  return 1;
}

}  // namespace hwy::platform

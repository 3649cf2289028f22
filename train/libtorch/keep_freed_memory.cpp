#include "kolo/train/tensor.hpp"

#include <cstdlib>  // defines __GLIBC__

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace kolo {

void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kKept = 1 << 30;
  // Once one of the thresholds is set, glibc no longer adapts the other.
  mallopt(M_MMAP_THRESHOLD, kKept);
  mallopt(M_TRIM_THRESHOLD, kKept);
  mallopt(M_TOP_PAD, 64 << 20);  // threads that are not the main one keep a whole heap
#endif
}

}  // namespace kolo

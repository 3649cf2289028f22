// relax(): what to do between two polls of memory that another core writes.
#pragma once

namespace kolo::engine {

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace kolo::engine

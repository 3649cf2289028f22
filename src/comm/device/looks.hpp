// How often the thread of the calls on devices asks a device how far it is.
#pragma once

#include <chrono>
#include <thread>

namespace kolo::comm {

/// Between two looks, after the first ones.
inline constexpr auto kLook = std::chrono::microseconds(20);

/// After that many looks without news.
inline void pause(int looks) {
  constexpr int kYields = 200;
  if (looks < kYields) return std::this_thread::yield();
  std::this_thread::sleep_for(kLook);
}

}  // namespace kolo::comm

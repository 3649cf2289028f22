// How often the thread of the calls on devices asks a device how far it is.
#pragma once

#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "base/deadline.hpp"
#include "base/status.hpp"

namespace kolo::comm {

/// Between two looks, after the first ones.
inline constexpr auto kLook = std::chrono::microseconds(20);

/// After that many looks without news.
inline void pause(int looks) {
  constexpr int kYields = 200;
  if (looks < kYields) return std::this_thread::yield();
  std::this_thread::sleep_for(kLook);
}

/// What ends a call whose stream has not come to it in its time.
inline Status late_stream(std::chrono::nanoseconds timeout) {
  return Status(Code::timeout,
                fmt::format("the call's stream is not there yet after {:.1f} s", to_seconds(timeout)));
}

}  // namespace kolo::comm

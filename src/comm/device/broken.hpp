// Broken: what is wrong with a device, on its way out of a call.
#pragma once

#include <utility>

#include "base/status.hpp"

namespace kolo::comm {

/// Thrown and caught by the thread of the calls on devices.
struct Broken {
  Status status;
};
inline void require_sound(Status status) {
  if (!status.ok()) throw Broken{std::move(status)};
}

}  // namespace kolo::comm

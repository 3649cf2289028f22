// Which errors all ranks get, and which only the rank where they happen.
#pragma once

#include <exception>

#include "kolo/error.hpp"

namespace kolo::train {

/// Whether the other ranks learn of `error` without being told: it is the communicator's own, or what a
/// collective found.
inline bool comes_to_all(const std::exception& error) {
  return dynamic_cast<const Error*>(&error) != nullptr &&
         dynamic_cast<const InvalidArgument*>(&error) == nullptr;
}

}  // namespace kolo::train

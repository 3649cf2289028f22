// Memory faults: a system call of an endpoint found memory that cannot be read or written.
#pragma once

#include "base/status.hpp"

namespace kolo::transport {

/// Codes that endpoints use for nothing else. The owner of the memory is to blame; no rank is lost.
inline constexpr Code kOwnMemoryFault = Code::invalid_argument;
inline constexpr Code kPeerMemoryFault = Code::mismatch;

inline bool is_memory_fault(const Status& status) {
  return status.code() == kOwnMemoryFault || status.code() == kPeerMemoryFault;
}

}  // namespace kolo::transport

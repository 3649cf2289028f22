// CommunicationStatistics: what averaging the gradients cost, and how much of that backward hid.
#pragma once

#include <chrono>
#include <cstdint>

namespace kolo {

/// Of one step (a backward that averages) or, added up, of many. Times are of this rank.
struct CommunicationStatistics {
  std::uint64_t steps = 0;
  std::uint64_t all_reduces = 0;  ///< of buckets
  std::uint64_t bytes = 0;        ///< of gradients handed to all_reduce; what went over the wire: Counters
  std::chrono::nanoseconds hidden{0};   ///< some bucket was under way while backward still computed
  std::chrono::nanoseconds exposed{0};  ///< backward was over and waited for buckets and buffers

  CommunicationStatistics& operator+=(const CommunicationStatistics& other) noexcept {
    steps += other.steps;
    all_reduces += other.all_reduces;
    bytes += other.bytes;
    hidden += other.hidden;
    exposed += other.exposed;
    return *this;
  }
};

}  // namespace kolo

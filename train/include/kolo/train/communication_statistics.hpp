// CommunicationStatistics: what averaging the gradients cost, and how much of that backward hid.
#pragma once

#include <chrono>
#include <cstdint>

namespace kolo {

/// Of one step (a backward that averages) or, added up, of many. Times are of this rank.
struct CommunicationStatistics {
  std::uint64_t steps = 0;
  std::uint64_t all_reduces = 0;  ///< of buckets; with overlap_forward of slices
  std::uint64_t sparse_sums = 0;  ///< of tables
  std::uint64_t bytes = 0;  ///< of gradients (rows with indices) handed in; what went over the wire: Counters
  std::chrono::nanoseconds hidden{0};  ///< some bucket or table was under way while backward still computed
  /// Backward was over and waited for them and for buffers. With overlap_forward the next forward waits.
  std::chrono::nanoseconds exposed{0};

  CommunicationStatistics& operator+=(const CommunicationStatistics& other) noexcept {
    steps += other.steps;
    all_reduces += other.all_reduces;
    sparse_sums += other.sparse_sums;
    bytes += other.bytes;
    hidden += other.hidden;
    exposed += other.exposed;
    return *this;
  }
};

}  // namespace kolo

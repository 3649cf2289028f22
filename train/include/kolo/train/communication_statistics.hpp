// CommunicationStatistics: what averaging the gradients cost, and how much of that backward hid.
#pragma once

#include <chrono>
#include <cstdint>

namespace kolo {

/// What communication cost in one step (a backward that averages gradients, or an average of the models) or,
/// added up, in many. Times are of this rank.
struct CommunicationStatistics {
  std::uint64_t steps = 0;        ///< backward passes that averaged, or averages of the models
  std::uint64_t all_reduces = 0;  ///< buckets that were averaged; with overlap_forward slices
  std::uint64_t sparse_sums = 0;  ///< tables whose rows were summed
  std::uint64_t bytes = 0;  ///< handed in: gradients (rows with indices) or models; Counters has those sent
  std::chrono::nanoseconds hidden{0};  ///< time in which a bucket or table was under way under backward
  /// Time in which backward was over and waited for buckets, tables and buffers. With overlap_forward the
  /// next forward waits.
  std::chrono::nanoseconds exposed{0};

  /// Adds each number of `other`.
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

// Metrics: what a rank counts for operators, and how Prometheus reads it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kolo::observe {

/// Calls of one collective. All counts only grow.
struct CollectiveMetrics {
  std::string_view name;         ///< lives as long as the program
  std::uint64_t operations = 0;  ///< begun
  std::uint64_t bytes = 0;       ///< of this rank's data in them, as the caller counts
  std::uint64_t errors = 0;      ///< of those begun, and of those refused because the group had failed
};

/// What this rank knows of one peer.
struct PeerMetrics {
  int rank = -1;
  std::string host;
  std::string transport;
  std::uint64_t sent_bytes = 0;  ///< payload of messages, without headers
  std::uint64_t received_bytes = 0;
  std::uint64_t sent_messages = 0;
  std::uint64_t received_messages = 0;
  std::chrono::nanoseconds waited{};      ///< nothing moved here, and operations waited for this peer
  std::uint64_t connection_failures = 0;  ///< attempts to connect to it that failed and were repeated
  bool lost = false;                      ///< the link has ended without a goodbye
};

/// One rank of one group of links, at one time. A value.
struct RankMetrics {
  std::string group;  ///< tells groups of one process apart; the same on all ranks
  int rank = -1;
  std::string host;
  std::chrono::nanoseconds age{};
  std::uint64_t without_slot = 0;  ///< communicators that would use shared memory if it had a slot left
  std::vector<CollectiveMetrics> collectives;
  std::vector<PeerMetrics> peers;  ///< without the rank itself
};

/// The Prometheus text format, version 0.0.4: of each metric first what it is, then all of its samples.
std::string prometheus_text(std::span<const RankMetrics> ranks);

/// All sources of metrics in this process. Thread-safe.
class MetricsPage {
 public:
  using Source = std::function<RankMetrics()>;

  /// `owner` must call remove() before it is destroyed.
  void add(const void* owner, Source source);
  /// When this returns, the source is not running and is not called again. The caller must not hold a lock
  /// that the source takes.
  void remove(const void* owner);
  std::string text();

 private:
  std::mutex mutex_;
  std::map<const void*, Source> sources_;
};

}  // namespace kolo::observe

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

namespace kolo {

/// Calls of one collective. All counts only grow.
struct CollectiveMetrics {
  std::string_view name;         ///< lives as long as the program
  std::uint64_t operations = 0;  ///< begun
  std::uint64_t bytes = 0;       ///< of this rank's data in them, as the caller counts
  std::uint64_t errors = 0;      ///< of those begun, and of those refused because the group had failed
};

/// What this rank knows of one other.
struct PeerMetrics {
  int rank = -1;
  std::string host;
  std::string transport;
  std::uint64_t sent_bytes = 0;  ///< payload of messages, without headers
  std::uint64_t received_bytes = 0;
  std::uint64_t sent_messages = 0;
  std::uint64_t received_messages = 0;
  std::chrono::nanoseconds waited{};      ///< nothing moved here, and operations waited for this rank
  std::uint64_t connection_failures = 0;  ///< attempts to reach it that led nowhere, and were made again
  bool lost = false;                      ///< the link has ended without a goodbye
};

/// One rank of one group of links, at one time. A value.
struct RankMetrics {
  std::string group;  ///< tells groups of one process apart; the same on all ranks
  int rank = -1;
  std::string host;
  std::chrono::nanoseconds age{};
  std::vector<CollectiveMetrics> collectives;
  std::vector<PeerMetrics> peers;  ///< without the rank itself
};

/// The Prometheus text format, version 0.0.4: of each metric first what it is, then all of its samples.
std::string prometheus_text(std::span<const RankMetrics> ranks);

/// Whoever has metrics to show in this process. Thread-safe.
class MetricsPage {
 public:
  using Source = std::function<RankMetrics()>;

  /// `owner` must take itself off again before it dies.
  void add(const void* owner, Source source);
  /// When this returns the source is not being asked and will not be again. The caller must not hold a lock
  /// that the source takes.
  void remove(const void* owner);
  std::string text();

 private:
  std::mutex mutex_;
  std::map<const void*, Source> sources_;
};

}  // namespace kolo

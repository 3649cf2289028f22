// Observer: learns what an engine does, to show it to operators.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace kolo::observe {

/// A collective, or a message of the program's own.
struct ObservedCall {
  std::size_t collective;  ///< an index, in the order of RankMetrics::collectives
  std::string_view name;   ///< of the collective; lives as long as the program
  std::uint64_t number;    ///< among the collectives of its communicator; 0 for a message
  std::uint64_t bytes;     ///< of this rank's data, as the caller counts
};

/// Peers are link numbers. The engine calls all functions under its lock; they must not call it back.
class Observer {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  virtual ~Observer() = default;
  /// Whether ended() and the times of messages are needed. They cost each call some readings of the clock.
  virtual bool needs_times() const { return false; }
  virtual void began(const ObservedCall&) {}
  /// Also for a call that was refused, because the engine had failed.
  virtual void failed(const ObservedCall&) {}
  /// `sent`: bytes of messages.
  virtual void ended(const ObservedCall&, std::uint64_t /*sent*/, TimePoint /*begin*/, TimePoint /*end*/) {}
  /// A message of the call has been sent or received. `posted`: when it could move, if times are needed.
  virtual void transferred(const ObservedCall&, bool /*sent*/, int /*peer*/, std::uint64_t /*bytes*/,
                           TimePoint /*posted*/) {}
  /// Nothing has moved, and calls have waited for these peers.
  virtual void waited(const std::vector<int>& /*peers*/, TimePoint /*begin*/, TimePoint /*end*/) {}
  /// Attempts to connect to the peer that have failed so far.
  virtual void refused(int /*peer*/, std::uint64_t /*attempts*/) {}
  /// A new communicator of ranks that share memory has found all slots in use: its calls are messages.
  virtual void found_no_slot() {}
  /// The link to the peer has ended without a goodbye.
  virtual void lost(int /*peer*/) {}
};

}  // namespace kolo::observe

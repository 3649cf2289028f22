// MetricsRecorder: counts what an engine does, for a page of metrics.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "observe/metrics.hpp"
#include "observe/observer.hpp"

namespace kolo::observe {

/// Shows its counts on the page while it lives. The thread that reads the page takes no lock of the engine.
class MetricsRecorder final : public Observer {
 public:
  /// `described`: who and where the ranks are, without counts. Its peers are all ranks, in order.
  MetricsRecorder(std::shared_ptr<MetricsPage> page, RankMetrics described);
  ~MetricsRecorder() override;

  void began(const ObservedCall& call) override;
  void failed(const ObservedCall& call) override;
  void transferred(const ObservedCall& call, bool sent, int peer, std::uint64_t bytes,
                   TimePoint posted) override;
  void waited(const std::vector<int>& peers, TimePoint begin, TimePoint end) override;
  void refused(int peer, std::uint64_t attempts) override;
  void found_no_slot() override { without_slot_.add(1); }
  void lost(int peer) override;

  /// Thread-safe.
  RankMetrics metrics() const;

 private:
  /// Written by one thread at a time, under the engine's lock, and read by any. Relaxed: each count is of use
  /// alone.
  class Count {
   public:
    void add(std::uint64_t more) { set(get() + more); }
    void set(std::uint64_t value) { value_.store(value, std::memory_order_relaxed); }
    std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

   private:
    std::atomic<std::uint64_t> value_{0};
  };
  struct Calls {
    Count operations, bytes, errors;
  };
  struct PeerCounts {
    Count sent_bytes, received_bytes, sent_messages, received_messages, waited_ns, refusals, lost;
  };

  PeerCounts& of(int peer) { return peers_[static_cast<std::size_t>(peer)]; }

  const std::shared_ptr<MetricsPage> page_;
  const RankMetrics described_;
  const std::chrono::steady_clock::time_point created_ = std::chrono::steady_clock::now();
  Count without_slot_;
  std::vector<Calls> calls_;       // by collective
  std::vector<PeerCounts> peers_;  // by rank
};

}  // namespace kolo::observe

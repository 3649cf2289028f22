#include "observe/metrics_recorder.hpp"

#include <utility>

namespace kolo::observe {

MetricsRecorder::MetricsRecorder(std::shared_ptr<MetricsPage> page, RankMetrics described)
    : page_(std::move(page)),
      described_(std::move(described)),
      calls_(described_.collectives.size()),
      peers_(described_.peers.size()) {
  page_->add(this, [this] { return metrics(); });
}

MetricsRecorder::~MetricsRecorder() {
  page_->remove(this);
}

void MetricsRecorder::began(const ObservedCall& call) {
  Calls& counts = calls_[call.collective];
  counts.operations.add(1);
  counts.bytes.add(call.bytes);
}

void MetricsRecorder::failed(const ObservedCall& call) {
  calls_[call.collective].errors.add(1);
}

void MetricsRecorder::transferred(const ObservedCall&, bool sent, int peer, std::uint64_t bytes, TimePoint) {
  PeerCounts& counts = of(peer);
  (sent ? counts.sent_bytes : counts.received_bytes).add(bytes);
  (sent ? counts.sent_messages : counts.received_messages).add(1);
}

void MetricsRecorder::waited(const std::vector<int>& peers, TimePoint begin, TimePoint end) {
  const std::chrono::nanoseconds time = end - begin;
  for (const int peer : peers)
    of(peer).waited_ns.add(static_cast<std::uint64_t>(time.count()) / peers.size());
}

void MetricsRecorder::refused(int peer, std::uint64_t attempts) {
  of(peer).refusals.set(attempts);
}

void MetricsRecorder::lost(int peer) {
  of(peer).lost.set(1);
}

RankMetrics MetricsRecorder::metrics() const {
  RankMetrics shown = described_;
  shown.age = std::chrono::steady_clock::now() - created_;
  shown.without_slot = without_slot_.get();
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    CollectiveMetrics& collective = shown.collectives[i];
    collective.operations = calls_[i].operations.get();
    collective.bytes = calls_[i].bytes.get();
    collective.errors = calls_[i].errors.get();
  }
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    PeerMetrics& peer = shown.peers[i];
    const PeerCounts& counts = peers_[i];
    peer.sent_bytes = counts.sent_bytes.get();
    peer.received_bytes = counts.received_bytes.get();
    peer.sent_messages = counts.sent_messages.get();
    peer.received_messages = counts.received_messages.get();
    peer.waited = std::chrono::nanoseconds(counts.waited_ns.get());
    peer.connection_failures = counts.refusals.get();
    peer.lost = counts.lost.get() != 0;
  }
  std::erase_if(shown.peers, [&](const PeerMetrics& peer) { return peer.rank == shown.rank; });
  return shown;
}

}  // namespace kolo::observe

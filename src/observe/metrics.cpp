#include "observe/metrics.hpp"

#include <iterator>

#include <fmt/format.h>

#include "base/deadline.hpp"
#include "kolo/version.hpp"

namespace kolo::observe {
namespace {

std::string label_value(std::string_view value) {
  std::string out = "\"";
  for (const char c : value) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string labels_of(const RankMetrics& rank) {
  return fmt::format("group={},host={},rank=\"{}\"", label_value(rank.group), label_value(rank.host),
                     rank.rank);
}

class Page {
 public:
  explicit Page(std::span<const RankMetrics> ranks) : ranks_(ranks) {}

  template <typename Value>
  void of_ranks(std::string_view name, std::string_view kind, std::string_view help, Value value,
                std::string_view more_labels = {}) {
    begin(name, kind, help);
    for (const RankMetrics& rank : ranks_)
      sample(name, labels_of(rank) + std::string(more_labels), value(rank));
  }

  template <typename Value>
  void of_collectives(std::string_view name, std::string_view help, Value value) {
    begin(name, "counter", help);
    for (const RankMetrics& rank : ranks_) {
      for (const CollectiveMetrics& one : rank.collectives) {
        sample(name, fmt::format("{},collective={}", labels_of(rank), label_value(one.name)), value(one));
      }
    }
  }

  template <typename Value>
  void of_peers(std::string_view name, std::string_view kind, std::string_view help, Value value) {
    begin(name, kind, help);
    for (const RankMetrics& rank : ranks_) {
      for (const PeerMetrics& peer : rank.peers) {
        sample(name,
               fmt::format("{},peer=\"{}\",peer_host={},transport={}", labels_of(rank), peer.rank,
                           label_value(peer.host), label_value(peer.transport)),
               value(peer));
      }
    }
  }

  std::string take() { return std::move(text_); }

 private:
  void begin(std::string_view name, std::string_view kind, std::string_view help) {
    fmt::format_to(std::back_inserter(text_), "# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, kind);
  }
  template <typename Number>
  void sample(std::string_view name, std::string_view labels, Number value) {
    fmt::format_to(std::back_inserter(text_), "{}{{{}}} {}\n", name, labels, value);
  }

  std::span<const RankMetrics> ranks_;
  std::string text_;
};

}  // namespace

std::string prometheus_text(std::span<const RankMetrics> ranks) {
  Page page(ranks);
  page.of_ranks(
      "kolo_info", "gauge", "Always 1; the version is a label.", [](const auto&) { return 1; },
      fmt::format(",version={}", label_value(version())));
  page.of_ranks("kolo_age_seconds", "gauge", "Time since this rank met the others.",
                [](const RankMetrics& r) { return to_seconds(r.age); });
  page.of_ranks("kolo_ranks", "gauge", "Ranks of the group, this one included.",
                [](const RankMetrics& r) { return r.peers.size() + 1; });
  page.of_ranks(
      "kolo_communicators_without_slot_total", "counter",
      "Communicators that would use shared memory, but others had all its slots: their calls are messages.",
      [](const RankMetrics& r) { return r.without_slot; });
  page.of_collectives("kolo_operations_total", "Calls begun.",
                      [](const CollectiveMetrics& c) { return c.operations; });
  page.of_collectives("kolo_operation_bytes_total", "Data of this rank in the calls begun.",
                      [](const CollectiveMetrics& c) { return c.bytes; });
  page.of_collectives("kolo_operation_errors_total", "Calls that ended with an error.",
                      [](const CollectiveMetrics& c) { return c.errors; });
  page.of_peers("kolo_sent_bytes_total", "counter",
                "Payload of messages to the peer; calls within shared memory exchange none.",
                [](const PeerMetrics& p) { return p.sent_bytes; });
  page.of_peers("kolo_received_bytes_total", "counter", "Payload of messages from the peer.",
                [](const PeerMetrics& p) { return p.received_bytes; });
  page.of_peers("kolo_sent_messages_total", "counter", "Messages to the peer.",
                [](const PeerMetrics& p) { return p.sent_messages; });
  page.of_peers("kolo_received_messages_total", "counter", "Messages from the peer.",
                [](const PeerMetrics& p) { return p.received_messages; });
  page.of_peers("kolo_waiting_seconds_total", "counter",
                "Time in which nothing moved here while calls waited for the peer; peers share it equally.",
                [](const PeerMetrics& p) { return to_seconds(p.waited); });
  page.of_peers("kolo_connection_failures_total", "counter",
                "Attempts to connect to the peer that failed and were made again.",
                [](const PeerMetrics& p) { return p.connection_failures; });
  page.of_peers("kolo_peer_lost", "gauge", "1 when the link to the peer has broken.",
                [](const PeerMetrics& p) { return p.lost ? 1 : 0; });
  return page.take();
}

void MetricsPage::add(const void* owner, Source source) {
  const std::lock_guard lock(mutex_);
  sources_[owner] = std::move(source);
}

void MetricsPage::remove(const void* owner) {
  const std::lock_guard lock(mutex_);
  sources_.erase(owner);
}

std::string MetricsPage::text() {
  const std::lock_guard lock(mutex_);
  std::vector<RankMetrics> ranks;
  for (const auto& [owner, source] : sources_) ranks.push_back(source());
  return prometheus_text(ranks);
}

}  // namespace kolo::observe

// The text that Prometheus reads.
#include "observe/metrics.hpp"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

namespace kolo {
namespace {

observe::RankMetrics example(int rank) {
  observe::RankMetrics made;
  made.group = "g";
  made.rank = rank;
  made.host = "a";
  made.age = std::chrono::milliseconds(1500);
  made.collectives = {{"all_reduce", 7, 56, 1}};
  observe::PeerMetrics peer;
  peer.rank = 1 - rank;
  peer.host = "b";
  peer.transport = "tcp";
  peer.sent_bytes = std::uint64_t{1} << 60;
  peer.waited = std::chrono::milliseconds(250);
  peer.lost = true;
  made.peers = {peer};
  return made;
}

bool has_line(const std::string& text, const std::string& line) {
  return text.starts_with(line + "\n") || text.find("\n" + line + "\n") != std::string::npos;
}

TEST(Metrics, EachValueHasItsLabels) {
  const observe::RankMetrics one = example(0);
  const std::string text = observe::prometheus_text({&one, 1});
  const std::string rank = "{group=\"g\",host=\"a\",rank=\"0\"";
  const std::string peer = rank + ",peer=\"1\",peer_host=\"b\",transport=\"tcp\"} ";
  EXPECT_TRUE(has_line(text, "kolo_age_seconds" + rank + "} 1.5")) << text;
  EXPECT_TRUE(has_line(text, "kolo_ranks" + rank + "} 2")) << text;
  EXPECT_TRUE(has_line(text, "kolo_operations_total" + rank + ",collective=\"all_reduce\"} 7")) << text;
  EXPECT_TRUE(has_line(text, "kolo_operation_bytes_total" + rank + ",collective=\"all_reduce\"} 56")) << text;
  EXPECT_TRUE(has_line(text, "kolo_operation_errors_total" + rank + ",collective=\"all_reduce\"} 1")) << text;
  EXPECT_TRUE(has_line(text, "kolo_sent_bytes_total" + peer + "1152921504606846976")) << text;
  EXPECT_TRUE(has_line(text, "kolo_waiting_seconds_total" + peer + "0.25")) << text;
  EXPECT_TRUE(has_line(text, "kolo_peer_lost" + peer + "1")) << text;
}

/// Prometheus requires all samples of a metric together after its TYPE line, and no duplicate series.
TEST(Metrics, SamplesOfOneMetricStandTogether) {
  const observe::RankMetrics both[] = {example(0), example(1)};
  std::istringstream lines(observe::prometheus_text(both));
  std::set<std::string> declared;
  std::set<std::string> series;
  std::string current;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ")) continue;
    if (line.starts_with("# TYPE ")) {
      current = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(declared.insert(current).second) << line;
      const std::string kind = line.substr(8 + current.size());
      EXPECT_EQ(kind, current.ends_with("_total") ? "counter" : "gauge");
      continue;
    }
    EXPECT_EQ(line.substr(0, line.find('{')), current);
    EXPECT_TRUE(series.insert(line.substr(0, line.rfind(' '))).second) << line;
  }
  EXPECT_EQ(series.size(), 2 * declared.size());
}

TEST(Metrics, AwkwardLabelsAreEscaped) {
  observe::RankMetrics one = example(0);
  one.host = "a\"b\\c\nd";
  EXPECT_NE(observe::prometheus_text({&one, 1}).find("host=\"a\\\"b\\\\c\\nd\","), std::string::npos);
}

TEST(Metrics, APageShowsWhoeverIsOnIt) {
  observe::MetricsPage page;
  const int owners[2] = {};
  page.add(&owners[0], [] { return example(0); });
  page.add(&owners[1], [] { return example(1); });
  EXPECT_NE(page.text().find("rank=\"1\""), std::string::npos);
  page.remove(&owners[1]);
  EXPECT_EQ(page.text().find(",rank=\"1\""), std::string::npos);
  EXPECT_NE(page.text().find(",rank=\"0\""), std::string::npos);
}

}  // namespace
}  // namespace kolo

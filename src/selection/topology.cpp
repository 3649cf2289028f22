#include "selection/topology.hpp"

#include <algorithm>
#include <set>

#include "selection/ring_order.hpp"

namespace kolo::selection {
namespace {

std::string joined(const std::set<std::string>& kinds) {
  std::string text;
  for (const std::string& kind : kinds) text += (text.empty() ? "" : "+") + kind;
  return text;
}

/// Adds the kinds in "shm+tcp" to `kinds`.
void add_kinds(const std::string& text, std::set<std::string>& kinds) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('+', begin), text.size());
    kinds.insert(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

}  // namespace

Setting Topology::setting() const {
  const std::set<int> different(hosts.begin(), hosts.end());
  std::set<std::string> kinds;
  if (static_cast<std::size_t>(size) > std::max<std::size_t>(different.size(), 1))
    add_kinds(links_inside.names, kinds);
  if (different.size() > 1) add_kinds(links_between, kinds);
  return {kinds.empty() ? "self" : joined(kinds), layout_of(hosts, size)};
}

void Topology::set_model(const CostModel& costs) {
  model = costs;
  if (links_inside.never_ask) model.memory.longest_short = kNeverAsks;
}

Topology part_of(const Topology& whole, const std::vector<int>& ranks) {
  Topology part = whole;
  part.size = static_cast<int>(ranks.size());
  part.hosts.clear();
  part.host_names.clear();
  part.bandwidth.clear();
  if (!whole.hosts.empty()) {
    std::vector<int> known;  // number in `whole` of each host of the part
    for (const int rank : ranks) {
      const int host = whole.hosts[static_cast<std::size_t>(rank)];
      const auto found = std::find(known.begin(), known.end(), host);
      part.hosts.push_back(static_cast<int>(found - known.begin()));
      if (found != known.end()) continue;
      known.push_back(host);
      part.host_names.push_back(whole.host_names[static_cast<std::size_t>(host)]);
    }
    if (known.size() == 1) part.hosts.clear();
    for (const int from : whole.bandwidth.empty() ? std::vector<int>{} : known) {
      std::vector<double>& row = part.bandwidth.emplace_back();
      for (const int to : known) {
        row.push_back(whole.bandwidth[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)]);
      }
    }
  }
  if (const auto model = part.table.model(part.setting())) part.model = *model;
  part.ring.clear();
  for (const int rank : whole.ring) {
    const auto found = std::find(ranks.begin(), ranks.end(), rank);
    if (found != ranks.end()) part.ring.push_back(static_cast<int>(found - ranks.begin()));
  }
  return part;
}

std::vector<int> ring_by_bandwidth(const Topology& topology) {
  if (topology.bandwidth.size() < 3) return {};
  std::vector<int> ring;
  for (const int host : fastest_ring(topology.bandwidth)) {
    for (std::size_t rank = 0; rank < topology.hosts.size(); ++rank) {
      if (topology.hosts[rank] == host) ring.push_back(static_cast<int>(rank));
    }
  }
  return ring;
}

}  // namespace kolo::selection

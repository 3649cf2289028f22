#include "plan/training/group_prices.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <set>

#include "base/config.hpp"
#include "transport/transport.hpp"

namespace kolo::plan {
namespace {

std::set<int> hosts_of(const Cluster& cluster, const std::vector<int>& ranks) {
  std::set<int> hosts;
  for (const int rank : ranks) hosts.insert(cluster.host_of(rank));
  return hosts;
}

/// Whether messages between ranks of a kind cross links.
bool crosses(const std::vector<int>& layout) {
  return *std::ranges::max_element(layout) > 0;
}

}  // namespace

ConcurrentGroups::ConcurrentGroups(const Cluster& cluster, const std::vector<std::vector<int>>& groups) {
  std::map<int, int> crossing;  // groups, by host
  for (const std::vector<int>& group : groups) {
    const std::set<int> hosts = hosts_of(cluster, group);
    if (hosts.size() < 2) continue;
    for (const int host : hosts) ++crossing[host];
  }
  for (const std::vector<int>& group : groups) {
    Kind kind{{}, 1};
    std::map<int, int> numbers;
    for (const int rank : group) {
      const int host = cluster.host_of(rank);
      kind.first.push_back(numbers.emplace(host, static_cast<int>(numbers.size())).first->second);
      if (crossing.contains(host)) kind.second = std::max(kind.second, crossing.at(host));
    }
    if (!crosses(kind.first)) kind.second = 1;
    if (std::ranges::find(kinds_, kind) == kinds_.end()) kinds_.push_back(std::move(kind));
  }
}

GroupPrices::GroupPrices(const Cluster& cluster) : cluster_(cluster) {}

selection::Chooser& GroupPrices::chooser_of(const ConcurrentGroups::Kind& kind) {
  auto& chooser = choosers_[kind];
  if (chooser) return *chooser;
  const auto& [layout, sharing] = kind;
  selection::Topology topology;
  topology.size = static_cast<int>(layout.size());
  if (crosses(layout)) {
    topology.hosts = layout;
    topology.model.network.wire_per_byte = sharing / cluster_.bytes_per_second;
  }
  const transport::TransportFactory& inside = transport::fastest_transport(transport::Reach::host);
  topology.links_inside = {.names = std::string(inside.name), .share_memory = inside.shares_memory};
  topology.links_between = transport::fastest_transport(transport::Reach::network).name;
  topology.model.cores = cluster_.ranks_per_host;
  topology.shares_memory = topology.may_share_memory();
  return *(chooser = std::make_unique<selection::Chooser>(std::move(topology)));
}

double GroupPrices::at_power(schedule::Collective collective, const ConcurrentGroups::Kind& kind,
                             int exponent) {
  const auto [known, is_new] = known_.try_emplace({collective, kind, exponent}, 0);
  if (!is_new) return known->second;
  const std::uint64_t bytes = std::uint64_t{1} << exponent;
  return known->second = chooser_of(kind)
                             .expect({.collective = collective}, bytes, {}, config().algorithm)
                             .value_or_throw()
                             .seconds;
}

double GroupPrices::seconds(schedule::Collective collective, const ConcurrentGroups& groups, double bytes) {
  double slowest = 0;
  if (bytes <= 0) return slowest;
  const double whole = std::max(1.0, std::ceil(bytes));
  const int below = std::bit_width(static_cast<std::uint64_t>(whole)) - 1;
  const double share = whole / std::exp2(below) - 1;
  for (const ConcurrentGroups::Kind& kind : groups.kinds()) {
    if (kind.first.size() < 2) continue;
    const double least = at_power(collective, kind, below);
    const double most = share > 0 ? at_power(collective, kind, below + 1) : least;
    slowest = std::max(slowest, least + share * (most - least));
  }
  return slowest;
}

}  // namespace kolo::plan

// GroupPrices: what collectives take in groups of ranks that communicate at the same time.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "schedule/schedule.hpp"
#include "selection/chooser.hpp"

namespace kolo::plan {

/// Hosts that are all alike: ranks 0, 1, ... fill the first host, then the next one. A value.
struct Cluster {
  int hosts = 1;
  int ranks_per_host = 1;
  double bytes_per_second = 0;  ///< payload that a host's link carries, each way; unused with one host

  int ranks() const { return hosts * ranks_per_host; }
  int host_of(int rank) const { return rank / ranks_per_host; }
};

/// Groups of as many ranks each that run one collective at the same time. A host's link is shared by the
/// groups that have ranks on this host and on others. A value.
class ConcurrentGroups {
 public:
  ConcurrentGroups(const Cluster& cluster, const std::vector<std::vector<int>>& groups);

  /// How the ranks of a group lie on hosts, numbered from 0, and how many groups share the busiest of its
  /// links.
  using Kind = std::pair<std::vector<int>, int>;
  /// The different ones.
  const std::vector<Kind>& kinds() const { return kinds_; }

 private:
  std::vector<Kind> kinds_;
};

/// By Chooser and predict(), with typical costs of messages and the cluster's rate; KOLO_ALGORITHM counts, a
/// tuning table does not, as its times are of other links. Not thread-safe.
class GroupPrices {
 public:
  explicit GroupPrices(const Cluster& cluster);

  /// Seconds that the slowest of the groups takes for one call; `bytes` as for Chooser::choose(). Between
  /// powers of two on a straight line. 0 for no bytes and for groups of one rank.
  double seconds(schedule::Collective collective, const ConcurrentGroups& groups, double bytes);

 private:
  double at_power(schedule::Collective collective, const ConcurrentGroups::Kind& kind, int exponent);
  selection::Chooser& chooser_of(const ConcurrentGroups::Kind& kind);

  Cluster cluster_;
  std::map<ConcurrentGroups::Kind, std::unique_ptr<selection::Chooser>> choosers_;
  std::map<std::tuple<schedule::Collective, ConcurrentGroups::Kind, int>, double> known_;
};

}  // namespace kolo::plan

// Topology: what a communicator knows of its ranks, used to choose algorithms.
#pragma once

#include <string>
#include <vector>

#include "selection/bandwidth.hpp"
#include "selection/cost_model.hpp"
#include "selection/table.hpp"

namespace kolo::selection {

/// The kinds of links between ranks of one host.
struct LinkKinds {
  std::string names = {};     ///< "shm", "shm+tcp" if there are several
  bool share_memory = false;  ///< all of them
  bool never_ask = false;     ///< all of them: as kNeverAsks
};

/// The same on all ranks of a communicator, so that all ranks choose the same. A value.
struct Topology {
  int size = 1;
  std::vector<int> hosts = {};               ///< as ScheduleSpec::hosts
  std::vector<std::string> host_names = {};  ///< by host number
  int cores = 1;                             ///< shared by the ranks of a host, on the host with the fewest
  bool oversubscribed = false;               ///< some ranks of the job share cores
  bool shares_memory = false;                ///< all ranks do, on one host: some algorithms send no messages
  LinkKinds links_inside = {};               ///< between ranks of one host
  std::string links_between = {};            ///< names of the kinds between different hosts
  CostModel model = typical_cost_model();
  TuningTable table = {};
  BandwidthMatrix bandwidth = {};  ///< between hosts, bytes a second; empty: all links as the model says
  std::vector<int> ring = {};      ///< the order for rings; empty: the default order of ring_order()

  Setting setting() const;
  /// Takes a measured model, or one from a table. Values that are not measured follow from the kinds of
  /// links.
  void set_model(const CostModel& costs);
  /// Whether ranks with this placement and these links share memory, unless there are too many communicators.
  bool may_share_memory() const { return hosts.empty() && links_inside.share_memory; }
};

/// The topology of some of the ranks, in this order.
Topology part_of(const Topology& whole, const std::vector<int>& ranks);

/// The order of a ring that avoids slow links between hosts, if their bandwidths are known; else empty.
std::vector<int> ring_by_bandwidth(const Topology& topology);

}  // namespace kolo::selection

// Situation: what a communicator knows of its ranks, for choosing.
#pragma once

#include <string>
#include <vector>

#include "selection/bandwidth.hpp"
#include "selection/cost_model.hpp"
#include "selection/table.hpp"

namespace kolo {

class Communicator;

/// The same on all ranks of a communicator, so that all choose the same. A value.
struct Situation {
  int size = 1;
  std::vector<int> hosts = {};               ///< as ScheduleSpec::hosts
  std::vector<std::string> host_names = {};  ///< of each host
  int cores = 1;                             ///< that ranks of a host share, on the host with the fewest
  bool shares_memory = false;                ///< all ranks, on one host: native algorithms run
  std::string links_inside = {};             ///< kinds of links between ranks of one host: "shm"
  std::string links_between = {};            ///< and of different hosts: "tcp"
  CostModel model = typical_cost_model();
  TuningTable table = {};
  BandwidthMatrix bandwidth = {};  ///< between hosts, bytes a second; empty: all links as the model says
  std::vector<int> ring = {};      ///< the order for rings; empty: theirs

  Setting setting() const;
  /// As measured, or from a table; what no measurement tells follows from the links.
  void set_model(const CostModel& costs);
  /// Whether ranks so placed and linked share memory, unless there are too many communicators.
  bool may_share_memory() const { return hosts.empty() && links_inside == "shm"; }
};

/// The same of some of its ranks, in this order.
Situation part_of(const Situation& whole, const std::vector<int>& ranks);

/// The order of a ring that avoids slow links between hosts, if their bandwidths are known; else none.
std::vector<int> ring_by_bandwidth(const Situation& situation);

/// Collective, in milliseconds where links are fast: what messages cost between these ranks, the same result
/// on all.
CostModel measure_costs(Communicator& communicator);

/// Lives as long as the communicator. Not while it is being made.
const Situation& situation_of(const Communicator& communicator);

}  // namespace kolo

// Situation: what a communicator knows of its ranks, for choosing.
#pragma once

#include <string>
#include <vector>

#include "selection/cost_model.hpp"
#include "selection/table.hpp"

namespace kolo {

class Communicator;

/// The same on all ranks of a communicator, so that all choose the same. A value.
struct Situation {
  int size = 1;
  std::vector<int> hosts = {};               ///< as ScheduleSpec::hosts
  std::vector<std::string> host_names = {};  ///< of each host
  std::string links = {};                    ///< the kinds of links, as Setting::links
  CostModel model = typical_cost_model();
  TuningTable table = {};
  std::vector<int> ring = {};  ///< the order for rings; empty: theirs

  Setting setting() const { return {links, layout_of(hosts, size)}; }
};

/// Lives as long as the communicator. Not while it is being made.
const Situation& situation_of(const Communicator& communicator);

}  // namespace kolo

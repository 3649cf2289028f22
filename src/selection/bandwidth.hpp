// Bandwidths between hosts: what each host can send to each other host, and what that tells of their own
// links.
#pragma once

#include <string>
#include <vector>

#include "selection/table.hpp"

namespace kolo::selection {

/// bandwidth[i][j]: what host i can send to host j, in any unit, above 0; the diagonal is ignored. A square
/// matrix.
using BandwidthMatrix = std::vector<std::vector<double>>;

/// Between these hosts, in bytes a second. Empty if the table lacks one of the values, or if there are fewer
/// than two hosts.
BandwidthMatrix bandwidths_between(const std::vector<std::string>& hosts, const TuningTable& table);

/// The capacity of a host's own link in each direction, shared by all that the host sends or receives at the
/// same time. It is the largest bandwidth to, or from, any single host.
struct HostLinks {
  explicit HostLinks(const BandwidthMatrix& bandwidth);

  std::vector<double> out;
  std::vector<double> in;
};

/// The hosts whose links are slower than those of the remaining hosts: below the widest gap, if that is a
/// fifth or more.
std::vector<int> slow_hosts(const BandwidthMatrix& bandwidth);

}  // namespace kolo::selection

// Bandwidths between hosts: what each can send to each other one, and what that says of their own links.
#pragma once

#include <string>
#include <vector>

#include "selection/table.hpp"

namespace kolo {

/// bandwidth[i][j]: what i can send to j, any unit above 0; the diagonal is ignored. A square matrix.
using BandwidthMatrix = std::vector<std::vector<double>>;

/// Between these hosts, in bytes a second; empty where the table does not know all of it, or where there are
/// fewer than two.
BandwidthMatrix bandwidths_between(const std::vector<std::string>& hosts, const TuningTable& table);

/// What a host's own link carries each way, shared by all that it sends or receives at once: as much as goes
/// to, or comes from, the host with which that is the most.
struct HostLinks {
  explicit HostLinks(const BandwidthMatrix& bandwidth);

  std::vector<double> out;
  std::vector<double> in;
};

/// The hosts whose links are slower than those of the others: below the widest gap, if that is a fifth or
/// more.
std::vector<int> slow_hosts(const BandwidthMatrix& bandwidth);

}  // namespace kolo

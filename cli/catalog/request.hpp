// Request: parses the ranks and hosts of a schedule from the command line.
#pragma once

#include <string_view>
#include <vector>

#include "schedule/schedule.hpp"

namespace kolo::cli {

/// Parses "3,2,3", the number of ranks on each host in order. Returns the host of each rank; empty text gives
/// an empty list. Throws InvalidArgumentError for any other text.
std::vector<int> parse_ranks_per_host(std::string_view text);

/// Parses "8" or "2:8" (all from 2 to 8). For empty text returns the number of ranks of the hosts, or
/// `otherwise` without hosts. Throws InvalidArgumentError for a number that is not from 1 to `limit` or does
/// not match the hosts.
std::vector<int> parse_ranks(std::string_view text, const std::vector<int>& hosts, int limit,
                             std::vector<int> otherwise);

/// The root of a collective of `size` ranks; 0 if the collective has none. Throws InvalidArgumentError for a
/// root that is not one of the ranks.
int checked_root(int root, schedule::Collective collective, int size);

}  // namespace kolo::cli

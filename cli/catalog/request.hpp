// Request: which algorithm of which collective, with how many ranks on which hosts, as the command line says
// it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kolo::cli {

/// "3,2,3" (ranks on each host, in order): the host of each rank; empty: nothing known. Throws
/// InvalidArgument for anything else.
std::vector<int> parse_ranks_per_host(std::string_view text);

/// "8", "2:8" (all from 2 to 8); empty: `otherwise`, or as many as there are hosts' ranks. Throws
/// InvalidArgument for what is not within 1 and `limit`, or does not fit the hosts.
std::vector<int> parse_ranks(std::string_view text, const std::vector<int>& hosts, int limit,
                             std::vector<int> otherwise);

}  // namespace kolo::cli

// The environment of ranks, as entries "NAME=value".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kolo::cli {

struct RankPlace {
  int rank = 0;
  int job_size = 0;
  int local_rank = 0;
  int local_size = 0;
};

/// The entries of this environment that ranks get, on other hosts too: KOLO_*, OMP_NUM_THREADS, with
/// `terminal` what programs ask about it, and `wanted` (NAME, or NAME=value to set it). Names that are not
/// set go to `missing`.
std::vector<std::string> variables_to_pass(const std::vector<std::string>& wanted, bool terminal,
                                           std::vector<std::string>& missing);

/// The whole environment of a rank: that of this process without its place in an outer job, the rank's place,
/// and `variables`, which count most. `marks` tells the processes of the job from others.
std::vector<std::string> rank_environment(const RankPlace& place, std::string_view marks,
                                          const std::vector<std::string>& variables);

}  // namespace kolo::cli

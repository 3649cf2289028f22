// The ranking: ways to train by their predicted time, and why each is where it is.
#pragma once

#include <string>
#include <vector>

#include "plan/training/job.hpp"
#include "plan/training/way_memory.hpp"
#include "plan/training/way_time.hpp"

namespace kolo::plan {

struct RankedWay {
  Way way;
  WayTime time;
  WayMemory memory;
  bool fits = true;    ///< into Job::memory
  std::string reason;  ///< what takes the time beside computing, or why it does not fit
};

/// The fastest first, and behind all others those that do not fit. Each way with the number of micro-batches
/// with which it is the fastest of those that fit; where none fits, needs least. Of the ways without a
/// pipeline, whose samples need not be divided, with the least number that fits. The job's samples are a
/// multiple of its ranks.
std::vector<RankedWay> ranking_of(const Job& job);

}  // namespace kolo::plan

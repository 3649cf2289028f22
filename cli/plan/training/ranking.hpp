// The ranking: ways to train by their predicted time, and why each is where it is; the table of `kolo plan
// training`.
#pragma once

#include <cstddef>
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

/// The fastest way first, ways that do not fit last. Each way has the fastest number of micro-batches that
/// fits, without a pipeline the least one; if none fits, the one with the least memory. The job's samples are
/// a multiple of its ranks.
std::vector<RankedWay> ranking_of(const Job& job);

/// Why a way takes its time, in words: its largest loss of time, or the part of its memory that does not fit.
std::string reason_of(const Job& job, const RankedWay& ranked);

/// The job and its ways, as lines for people of at most `width` characters. If that leaves no room beside a
/// way, its reason stands below it.
std::string training_table(const Job& job, const std::vector<RankedWay>& ranking, std::size_t width);

/// The names of a way's stages, "embedding..block 3", one after the other.
std::vector<std::string> stage_names(const Job& job, const Way& way);

}  // namespace kolo::plan

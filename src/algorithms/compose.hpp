// Composition: an all_reduce made of the schedules of other collectives, each run by some of the ranks.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "algorithms/algorithm.hpp"

namespace kolo {

/// A reduce, all_reduce or broadcast that some ranks run as a part of an all_reduce, on all of its data.
struct Part {
  Schedule schedule;       ///< its rank i is ranks[i]
  std::vector<int> ranks;  ///< of the whole
  BufferName input;        ///< what the part takes as its input; its output is the output
  bool is_last_sum;        ///< what it completes holds the contributions of all ranks, not of its own alone
};

/// The parts that this rank has, one after the other as far as the memory they touch demands; without any, a
/// copy. `chunks` is a multiple of each part's.
Schedule compose(const ScheduleSpec& spec, std::uint32_t chunks, const std::vector<Part>& parts);

/// Reduces to rank 0 and broadcasts from there, both by the algorithms of this name and with the spec's
/// arguments.
Schedule reduce_then_broadcast(const ScheduleSpec& spec, std::string_view name);

}  // namespace kolo

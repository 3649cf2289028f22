// Composition: an all_reduce made of schedules of other collectives, each run by some of the ranks.
#pragma once

#include <string_view>
#include <vector>

#include "algorithms/algorithm.hpp"

namespace kolo::algorithms {

/// A reduce, all_reduce or broadcast that some ranks run as a part of an all_reduce, on all its data.
struct Part {
  schedule::Schedule schedule;  ///< its rank i is ranks[i]
  std::vector<int> ranks;       ///< the ranks' numbers in the whole
  schedule::BufferName input;   ///< the buffer that the part uses as its input; its output is the output
  bool is_last_sum;  ///< its completed chunks hold the contributions of all ranks, not only of its own
};

/// The parts of this rank, one after the other as far as the memory they touch requires; a copy if there are
/// none. `chunks` is a multiple of each part's.
schedule::Schedule compose(const ScheduleSpec& spec, std::uint32_t chunks, const std::vector<Part>& parts);

/// Reduces to rank 0 and broadcasts from there, by the reduce and the broadcast algorithm called `name`, with
/// the spec's arguments.
schedule::Schedule reduce_then_broadcast(const ScheduleSpec& spec, std::string_view name);

}  // namespace kolo::algorithms

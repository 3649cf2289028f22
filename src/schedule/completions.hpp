// Completions: the ranks that complete the reduction of each chunk.
#pragma once

#include <functional>
#include <string>

#include "schedule/schedule.hpp"

namespace kolo::schedule {

/// Whether every chunk of a reduction is completed by one step of one rank, from which all other ranks
/// receive it. Then all ranks end with the same bits, even if messages are rounded on their way. If several
/// ranks completed a chunk, each would round other operands. Returns the chunk and the ranks in that case:
/// "chunk 0 at rank 0 and at rank 1". Empty: each chunk is completed once.
///
/// schedule_of: returns the schedule of a rank. Called rank by rank, until a chunk is found that is completed
/// twice. The schedules must have passed the checker.
std::string completed_twice(int size, const std::function<Schedule(int rank)>& schedule_of);

}  // namespace kolo::schedule

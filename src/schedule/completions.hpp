// Completions: which ranks complete the reduction of which chunks.
#pragma once

#include <functional>
#include <string>

#include "schedule/schedule.hpp"

namespace kolo {

/// Whether every chunk of a reduction is completed by one step of one rank, from which all others have it.
/// Then ranks end with the same bits even where what they send each other is rounded on its way. Of a chunk
/// that several ranks complete, each would round other operands; where this is so, the answer says who and
/// what: "chunk 0 at rank 0 and at rank 1". Empty: each is completed once.
///
/// schedule_of: the schedules, asked for rank by rank only as long as the answer may still be empty. They
/// must have passed the checker.
std::string completed_twice(int size, const std::function<Schedule(int rank)>& schedule_of);

}  // namespace kolo

// The two halves of a direct exchange, shared by all_reduce, reduce_scatter and all_gather.
#pragma once

#include "algorithms/algorithm.hpp"
#include "algorithms/turns.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {

/// Each rank sends every other rank the chunk of input that belongs to it. out = chunk `rank`, combined in
/// rank order. Needs received_scratch(size) slots.
void direct_reduce_scatter(schedule::ScheduleBuilder& builder, Turns& turns, const ScheduleSpec& spec,
                           schedule::ChunkRange out);

/// Each rank sends its chunk, `own`, to every other rank. The chunks of the other ranks end in output.
void direct_all_gather(schedule::ScheduleBuilder& builder, Turns& turns, const ScheduleSpec& spec,
                       schedule::ChunkRange own);

}  // namespace kolo::algorithms

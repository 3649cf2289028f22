// The two halves of a direct exchange, which all_reduce, reduce_scatter and all_gather share.
#pragma once

#include "algorithms/algorithm.hpp"
#include "schedule/builder.hpp"

namespace kolo {

/// Everyone sends every other rank that one's chunk of input; out = chunk `rank`, combined in rank order.
/// Needs received_scratch(size) slots.
void direct_reduce_scatter(ScheduleBuilder& builder, const ScheduleSpec& spec, ChunkRange out);

/// Everyone sends its chunk, `own`, to every other rank; the others' end in output.
void direct_all_gather(ScheduleBuilder& builder, const ScheduleSpec& spec, ChunkRange own);

}  // namespace kolo

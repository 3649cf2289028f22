// The left fold in rank order: how the rank-ordered algorithms combine contributions at one rank.
#pragma once

#include "algorithms/algorithm.hpp"
#include "schedule/builder.hpp"

namespace kolo {

/// Slots of scratch that fold_in_rank_order() needs on `rank`, of the size of one contribution: what comes
/// before its own may not lie in `out`, which in place still holds its own.
constexpr std::uint32_t fold_scratch(int rank) {
  return rank > 1 ? 1 : 0;
}

/// out = ((rank 0 op rank 1) op rank 2) op ...: receives one message from every other rank; `own` is this
/// rank's contribution. The same association whoever folds, so all algorithms that fold give the same
/// bits.
void fold_in_rank_order(ScheduleBuilder& builder, const ScheduleSpec& spec, ChunkRange out, ChunkRange own);

}  // namespace kolo

// The left fold in rank order: how the rank-ordered algorithms combine contributions at one rank.
#pragma once

#include "algorithms/algorithm.hpp"
#include "algorithms/group.hpp"
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

/// Slots of scratch that fold_received() needs for contributions of `chunks` chunks.
constexpr std::uint32_t received_scratch(int group_size, std::uint32_t chunks = 1) {
  return static_cast<std::uint32_t>(group_size - 1) * chunks;
}

/// The same left fold where everybody receives from everybody: each message has slots of its own, from
/// `first_slot` on, so that nobody waits for a turn, and they come from the nearest rank before first, as all
/// send to the nearest after first. In the order of the group; `completes` as of a step. A group of one
/// copies.
void fold_received(ScheduleBuilder& builder, const Group& group, ChunkRange out, ChunkRange own,
                   bool completes = true, std::uint32_t first_slot = 0);

}  // namespace kolo

// The left fold in rank order: how rank-ordered algorithms combine contributions at one rank.
#pragma once

#include "algorithms/algorithm.hpp"
#include "algorithms/group.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {

/// Slots of scratch, of the size of one contribution, that fold_in_rank_order() needs on `rank`. A sum of
/// earlier contributions must not be in `out`: in place, `out` still holds this rank's own.
constexpr std::uint32_t fold_scratch(int rank) {
  return rank > 1 ? 1 : 0;
}

/// out = ((rank 0 op rank 1) op rank 2) op ... Receives one message from every other rank; `own` is this
/// rank's contribution. The association is the same on every rank that folds, so all algorithms that fold
/// give the same bits.
void fold_in_rank_order(schedule::ScheduleBuilder& builder, const ScheduleSpec& spec,
                        schedule::ChunkRange out, schedule::ChunkRange own);

/// Slots of scratch that fold_received() needs for contributions of `chunks` chunks.
constexpr std::uint32_t received_scratch(int group_size, std::uint32_t chunks = 1) {
  return static_cast<std::uint32_t>(group_size - 1) * chunks;
}

/// The same left fold for algorithms in which all ranks receive from all ranks, in the order of the group.
/// Each message has slots of its own, from `first_slot` on, so no rank waits for a free slot. Messages are
/// received from the nearest rank before this one first, as each rank sends to the nearest rank after it
/// first. `completes`: see Step. A group of one copies.
void fold_received(schedule::ScheduleBuilder& builder, const Group& group, schedule::ChunkRange out,
                   schedule::ChunkRange own, bool completes = true, std::uint32_t first_slot = 0);

}  // namespace kolo::algorithms

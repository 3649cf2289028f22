// The ring's order and its two halves, shared by all_reduce, reduce_scatter and all_gather.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "algorithms/group.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {

/// The order of the ranks around the ring: by the argument `order`; else by rank, the ranks of a host
/// together.
Group ring_order(const ScheduleSpec& spec);

/// For every ring.
inline constexpr std::array<Parameter, 1> kRingParameters = {
    {{"order",
      "the ranks in the order of the ring, as in 0-2-1-3; else by rank, the ranks of a host together",
      ParameterKind::numbers}}};
std::string ring_objection(const ScheduleSpec& spec);
Arguments ring_in_order(const ScheduleSpec& spec, const std::vector<int>& ring);

inline constexpr std::string_view kRingSource =
    "P. Patarasuk, X. Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC 69 "
    "(2009)";

/// For algorithms that use both directions.
inline constexpr std::string_view kBidirectionalRingSource =
    "N. Jain, Y. Sabharwal: Optimal bucket algorithms for large MPI collectives on torus interconnects, ICS "
    "2010, the bucket algorithms for bidirectional links, on a torus of one dimension";

/// The block of chunks that belongs to a rank of the ring.
using BlockOf = std::function<schedule::ChunkRange(int rank)>;
/// The memory for this rank's partial sum of `rank`'s block, the `count`-th that it receives.
using SumOf = std::function<schedule::ChunkRange(int rank, std::uint32_t count)>;

/// A chunk belongs to the rank with its number.
schedule::ChunkRange input_of(int rank);
schedule::ChunkRange output_of(int rank);

/// N-1 rounds: a partial sum of each rank's block travels once around, and every rank adds its contribution
/// from `own` as it passes. The complete sum of a rank's block ends at that rank in sum(rank, N-2).
/// `completes`: see Step. Does nothing for N=1. Sends nothing before the steps `first`. Returns its last
/// send, if it has any.
schedule::ScheduleBuilder::StepIds ring_reduce_scatter(schedule::ScheduleBuilder& builder, const Group& ring,
                                                       const BlockOf& own, const SumOf& sum,
                                                       bool completes = true,
                                                       schedule::ScheduleBuilder::After first = {});

/// N-1 rounds: every rank passes on what it received, starting with `own`, its block. The blocks of the other
/// ranks end in to(rank). All receives can be posted at the start as far as memory allows. `first` and what
/// it returns are as above.
schedule::ScheduleBuilder::StepIds ring_all_gather(schedule::ScheduleBuilder& builder, const Group& ring,
                                                   schedule::ChunkRange own, const BlockOf& to,
                                                   schedule::ScheduleBuilder::After first = {});

/// The same two halves in both directions at once, half way around in each. N/2 rounds of two messages, and
/// one more round if the two partial sums of a block reach its rank at the same time (N odd).
void bidirectional_ring_reduce_scatter(schedule::ScheduleBuilder& builder, const Group& ring,
                                       const BlockOf& own, const SumOf& sum);
void bidirectional_ring_all_gather(schedule::ScheduleBuilder& builder, const Group& ring,
                                   schedule::ChunkRange own, const BlockOf& to);

}  // namespace kolo::algorithms

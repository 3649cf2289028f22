// The ring's order and its two halves, which all_reduce, reduce_scatter and all_gather share.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "schedule/builder.hpp"

namespace kolo {

/// Who follows whom around the ring: by the argument `order`; else by rank, the ranks of a host together.
class RingOrder {
 public:
  explicit RingOrder(const ScheduleSpec& spec);

  /// The rank `places` after (negative: before) this one; |places| <= size.
  int neighbour(int places) const;

 private:
  std::vector<int> order_;  // rank at each place
  int place_ = 0;           // of this rank
};

/// Of every ring.
inline constexpr std::array<Parameter, 1> kRingParameters = {
    {{"order",
      "the ranks in the order of the ring, as in 0-2-1-3; else by rank, the ranks of a host together",
      ParameterKind::numbers}}};
std::string ring_objection(const ScheduleSpec& spec);

/// Where a rank keeps its sum of `chunk` after `round` of the reducing half.
using SumPlace = ChunkRange (*)(const ScheduleSpec& spec, std::uint32_t chunk, std::uint32_t round);

/// N-1 rounds: a partial sum of each of the N chunks of input travels once around, and every rank adds its
/// own contribution as it passes. Ends with the whole of chunk `rank` in place(spec, rank, N-2). Does nothing
/// for N=1.
void ring_reduce_scatter(ScheduleBuilder& builder, const ScheduleSpec& spec, SumPlace place);

/// N-1 rounds: every rank passes on what it got, starting with `own`, its chunk `rank`; the others' chunks
/// end in output. All receives are ready from the start as far as memory allows.
void ring_all_gather(ScheduleBuilder& builder, const ScheduleSpec& spec, ChunkRange own);

}  // namespace kolo

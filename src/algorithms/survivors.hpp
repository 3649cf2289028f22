// Survivors: a subset of a power of two of the ranks; the remaining ranks give their data to it first.
#pragma once

#include <cstdint>

#include "algorithms/algorithm.hpp"
#include "algorithms/group.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {

/// Of N ranks, with P the largest power of two not above N, the first 2(N-P) form pairs. The odd rank gives
/// its data to the even one before it, which keeps rank order, and gets the result at the end (R. Thakur, R.
/// Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH, IJHPCA 19 (2005)).
class Survivors {
 public:
  explicit Survivors(const ScheduleSpec& spec);

  bool survives() const { return survives_; }
  /// The P survivors, with the place of this rank or, if it is none, of its partner.
  const Group& group() const { return group_; }
  /// One step if this rank is in a pair: the partner's data, all `chunks`, is combined into output. Returns
  /// the buffer that then holds a survivor's operand.
  schedule::BufferName fold_in(schedule::ScheduleBuilder& builder, std::uint32_t chunks) const;
  /// One step if this rank is in a pair: the partner gets the output.
  void tell(schedule::ScheduleBuilder& builder, std::uint32_t chunks) const;

 private:
  Group group_;
  int partner_;  // -1: none
  bool survives_;
};

}  // namespace kolo::algorithms

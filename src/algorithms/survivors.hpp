// Survivors: a power of two of the ranks, to whom the others give their data first.
#pragma once

#include <cstdint>

#include "algorithms/algorithm.hpp"
#include "algorithms/group.hpp"
#include "schedule/builder.hpp"

namespace kolo {

/// Of N ranks, P the largest power of two not above, the first 2(N-P) stand in pairs: the odd one gives its
/// data to the even one before it, which keeps rank order, and is told the result in the end (R. Thakur, R.
/// Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH, IJHPCA 19 (2005)).
class Survivors {
 public:
  explicit Survivors(const ScheduleSpec& spec);

  bool survives() const { return survives_; }
  /// The P survivors; of a rank that is none, its partner's view.
  const Group& group() const { return group_; }
  /// One step where there are pairs: the partner's data, all `chunks`, is combined into output. Returns where
  /// a survivor's operand then is.
  BufferName fold_in(ScheduleBuilder& builder, std::uint32_t chunks) const;
  /// One step where there are pairs: the partner gets the output.
  void tell(ScheduleBuilder& builder, std::uint32_t chunks) const;

 private:
  Group group_;
  int partner_;  // -1: none
  bool survives_;
};

}  // namespace kolo

// HazardTracker: finds the earlier steps that a step must wait for because of the memory they touch.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/memory_map.hpp"

namespace kolo::schedule {

/// Visits the steps of one rank in program order. The builder turns its results into dependencies; the
/// checker requires them of any schedule.
class HazardTracker {
 public:
  explicit HazardTracker(const MemoryMap& map) : map_(map), cells_(map.cells()) {}

  /// Appends the steps that `step` must wait for, perhaps more than once: the last writer of what it reads,
  /// and the last writer and all later readers of what it writes. Leaves out orderings that follow from these
  /// through other steps. Ranges must be in bounds.
  void visit(std::uint32_t id, const Step& step, std::vector<std::uint32_t>& waits_for);

 private:
  static constexpr std::uint32_t kNoStep = ~std::uint32_t{0};
  struct Cell {
    std::uint32_t writer = kNoStep;
    std::vector<std::uint32_t> readers;  // since the last write
  };

  MemoryMap map_;
  std::vector<Cell> cells_;
};

}  // namespace kolo::schedule

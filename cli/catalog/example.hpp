// Example: the spec with which an algorithm is shown.
#pragma once

#include "algorithms/algorithm.hpp"

namespace kolo::cli {

/// `ranks` ranks on one host; on hosts of unequal size if the algorithm's messages depend on hosts. Root 0.
algorithms::ScheduleSpec example_of(const algorithms::Algorithm& algorithm, int ranks);

}  // namespace kolo::cli

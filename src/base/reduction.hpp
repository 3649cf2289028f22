// A reduction that keeps memory alive.
#pragma once

#include <memory>

#include "kolo/reduction.hpp"

namespace kolo {

/// A built-in operation that keeps `memory` as long as it lives: of a call whose data are copies.
Reduction reduction_that_keeps(ReduceOp op, std::shared_ptr<const void> memory);

}  // namespace kolo

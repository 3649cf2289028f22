// A sum that keeps memory alive.
#pragma once

#include <memory>

#include "kolo/reduction.hpp"

namespace kolo {

/// A plain sum that keeps `memory` as long as it lives: of a premultiplied sum that uses a scaled copy.
Reduction sum_that_keeps(std::shared_ptr<const void> memory);

}  // namespace kolo

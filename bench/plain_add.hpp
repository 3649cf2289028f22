// STREAM's "add" as a plain loop: what the compiler makes of it is the yardstick for the kernels.
#pragma once

#include <cstddef>

namespace kolo {

void plain_add(float* __restrict out, const float* __restrict left, const float* __restrict right,
               std::size_t count);

}  // namespace kolo

// Plain loops, which the compiler vectorizes: the baseline for the kernels.
#pragma once

#include <cstddef>

namespace kolo {

/// STREAM's "add".
void plain_add(float* __restrict out, const float* __restrict left, const float* __restrict right,
               std::size_t count);

/// Two or four arrays, each of which becomes the sum of all.
void plain_fold2(float* __restrict a, float* __restrict b, std::size_t count);
void plain_fold4(float* __restrict a, float* __restrict b, float* __restrict c, float* __restrict d,
                 std::size_t count);

/// One array, read and written in place.
void plain_increment(float* data, std::size_t count);

}  // namespace kolo

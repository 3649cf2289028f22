#include "plain_add.hpp"

namespace kolo {

void plain_add(float* __restrict out, const float* __restrict left, const float* __restrict right,
               std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out[i] = left[i] + right[i];
}

void plain_fold2(float* __restrict a, float* __restrict b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) a[i] = b[i] = a[i] + b[i];
}

void plain_fold4(float* __restrict a, float* __restrict b, float* __restrict c, float* __restrict d,
                 std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) a[i] = b[i] = c[i] = d[i] = a[i] + b[i] + c[i] + d[i];
}

void plain_increment(float* data, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) data[i] += 1;
}

}  // namespace kolo

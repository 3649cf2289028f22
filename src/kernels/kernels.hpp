// Kernels: element-wise reductions over arrays, one per element type and operation.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kolo/dtype.hpp"
#include "kolo/reduction.hpp"

namespace kolo::kernels {

/// out[i] = left[i] op right[i]. `out` may be exactly `left` or exactly `right`; no other overlap. No
/// alignment is required. Thread-safe.
using ReduceFn = void (*)(void* out, const void* left, const void* right, std::size_t count);

/// The kernel for a built-in operation, chosen for this CPU; look it up once per call. For `average` it is
/// the sum. Null for ReduceOp::custom and for operations that the type does not know.
ReduceFn reduce_function(DType dtype, ReduceOp op);

/// out[i] = in[i] * factor, computed in the type of the elements; types of 8 and 16 bits are computed in
/// float32 and rounded once. `out` may be exactly `in`; no other overlap.
using ScaleFn = void (*)(void* out, const void* in, std::size_t count, double factor);
/// Null for types that are neither floating nor complex.
ScaleFn scale_function(DType dtype);

/// Whether contributions to an average are first scaled by average_scale(ranks): where exponents are shorter
/// than those of float32.
///
/// The largest float16 is 65504 (float8: 448 and 57344), and partial sums of an average are float16 too. The
/// scale is the largest power of two (at most 1) at which no sum of fewer than `ranks` contributions
/// overflows, in any order of addition. It changes only the bits of numbers that become subnormal.
constexpr bool is_scaled(DType dtype) {
  return is_floating(dtype) && 8 * static_cast<int>(size_of(dtype)) - element_type(dtype).digits < 8;
}
inline float average_scale(std::size_t element_bytes, std::uint64_t ranks) {
  if (ranks <= 2) return 1.0f;
  const int growth = element_bytes > 1 || ranks <= 8 ? 0 : ranks <= 900 ? 1 : 2;  // of float8, by rounding
  return std::ldexp(1.0f, -growth - static_cast<int>(std::bit_width(ranks - 2)));
}

/// out[i] = (left[i] + right[i]) / (divisor * scale): the last step of an average of scaled contributions.
/// Types of 8 and 16 bits add and divide in 32 bits and round once. The same aliasing as for ReduceFn;
/// divisor
/// >= 1.
using AverageFn = void (*)(void* out, const void* left, const void* right, std::size_t count,
                           std::uint64_t divisor);
/// Null for types without an average.
AverageFn average_function(DType dtype);

/// out[o][i] = in[0][i] op in[1][i] op ..., from left to right, for each of `out_count` (0 or more) outputs.
/// The result is bit for bit that of a chain of the kernels above, but every input is read once and every
/// output written once. In an average the inputs are scaled first, and all steps except the last are sums.
/// Other operations ignore `divisor`. A single input (in_count >= 1) is copied, also for an average. An
/// output may be exactly an input; no other overlap. No alignment is required. Thread-safe.
using FoldFn = void (*)(void* const* outs, std::size_t out_count, const void* const* ins,
                        std::size_t in_count, std::size_t count, std::uint64_t divisor);
/// Null for ReduceOp::custom and for operations that the type does not know.
FoldFn fold_function(DType dtype, ReduceOp op);

/// memcpy for large blocks, with streaming stores if they are faster. No overlap.
void copy(void* out, const void* in, std::size_t bytes);

/// Takes write ownership of cache lines that another core has written and this core has just read: writes the
/// same bytes to every line. No other thread may write there meanwhile. When the other core writes again, it
/// takes a line back from an owner faster than it invalidates a mere reader's copy. 128 KiB that two cores of
/// an EPYC (Zen 4) hand to and fro take 3 + 3 us instead of 15 + 3 within a core complex, and 8 + 8 instead
/// of 57 + 8 between two.
void own_lines(void* data, std::size_t bytes);

/// memcpy with streaming stores, for memory that several cores have read before and will read next. An
/// ordinary store would first have to take the line from the other cores. No overlap. When it returns, all
/// cores see the data.
void copy_for_others(void* out, const void* in, std::size_t bytes);

/// out[i] = in[i] converted between floating types of 16 to 64 bits, rounded to nearest even. No overlap.
/// Null if one of the types is another.
using CastFn = void (*)(void* out, const void* in, std::size_t count);
CastFn cast_function(DType to, DType from);

/// Names the instruction set in use, and those that the kernels were compiled for: "AVX3 (of SSE2 ... )".
const char* target_name();

/// Plain loops with the same meaning; the kernels are tested against them.
namespace reference {
void reduce(DType dtype, ReduceOp op, void* out, const void* left, const void* right, std::size_t count);
void scale(DType dtype, void* out, const void* in, std::size_t count, double factor);
void average(DType dtype, void* out, const void* left, const void* right, std::size_t count,
             std::uint64_t divisor);
}  // namespace reference

}  // namespace kolo::kernels

// Kernels: element-wise reductions over arrays, one per element type and operation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kolo/dtype.hpp"
#include "kolo/reduction.hpp"

namespace kolo::kernels {

/// out[i] = left[i] op right[i]. `out` may be exactly `left` or exactly `right`; no other overlap. No
/// alignment is required. Thread-safe.
using ReduceFn = void (*)(void* out, const void* left, const void* right, std::size_t count);

/// The kernel for a built-in operation, chosen for this CPU; look it up once per call. For `average` this is
/// the sum. Never null for the built-in operations; null for ReduceOp::custom.
ReduceFn reduce_function(DType dtype, ReduceOp op);

/// out[i] = in[i] * scale: what a contribution to an average among `divisor` ranks goes through first.
/// `out` may be exactly `in`; no other overlap.
///
/// The largest float16 is 65504, and the sums on the way to an average are float16 as well. The scale is the
/// largest power of two (at most 1) at which no sum of fewer than `divisor` contributions overflows, in
/// whatever order they are added. It changes no bit but of what becomes subnormal.
using ScaleFn = void (*)(void* out, const void* in, std::size_t count, std::uint64_t divisor);
/// Null for all types but float16: their contributions go as they are.
ScaleFn scale_function(DType dtype);

/// out[i] = (left[i] + right[i]) / (divisor * scale): the last step of an average of scaled contributions.
/// The 16-bit types add and divide in 32 bits and round once. Integers truncate towards zero. Aliasing as
/// ReduceFn; divisor >= 1.
using AverageFn = void (*)(void* out, const void* left, const void* right, std::size_t count,
                           std::uint64_t divisor);
AverageFn average_function(DType dtype);

/// out[o][i] = in[0][i] op in[1][i] op ..., from left to right, for each of `out_count` (0 or more) outputs:
/// bit for bit what a chain of the kernels above gives, but every input is read once and every output written
/// once. In an average the inputs are scaled first, and all but the last step are sums; other operations
/// ignore `divisor`. One input
/// (in_count >= 1) is copied, also for an average. Any output may be exactly any input, no other overlap; no
/// alignment is required. Thread-safe.
using FoldFn = void (*)(void* const* outs, std::size_t out_count, const void* const* ins,
                        std::size_t in_count, std::size_t count, std::uint64_t divisor);
/// Never null for the built-in operations; null for ReduceOp::custom.
FoldFn fold_function(DType dtype, ReduceOp op);

/// memcpy for large blocks: with stores that bypass the cache where that is faster. No overlap.
void copy(void* out, const void* in, std::size_t bytes);

/// Writes to every cache line of it what is there, so that this core owns what another one has written and
/// this one has just read; nobody else may write there meanwhile. Giving a line back, when the other core
/// writes it again, takes less than telling a mere reader to forget it: 128 KiB that two cores of an EPYC
/// (Zen 4) hand to and fro take 3 + 3 us instead of 15 + 3 within a core complex, and 8 + 8 instead of 57 + 8
/// between two.
void own_lines(void* data, std::size_t bytes);

/// memcpy for what several cores have read before and will read next: with stores that bypass the caches. An
/// ordinary store would first have to take the line from the other cores. No overlap. When it returns the
/// data is where everybody sees it.
void copy_for_others(void* out, const void* in, std::size_t bytes);

/// out[i] = in[i] converted, between the floating types: round to nearest even. No overlap. Null for pairs
/// that are not both floating.
using CastFn = void (*)(void* out, const void* in, std::size_t count);
CastFn cast_function(DType to, DType from);

/// Names of the instruction sets that the kernels were compiled for and the one in use: "AVX3 (of SSE2 ...
/// )".
const char* target_name();

/// Plain loops with the same meaning as above: what the kernels are tested against.
namespace reference {
void reduce(DType dtype, ReduceOp op, void* out, const void* left, const void* right, std::size_t count);
/// Copies where scale_function() has none.
void scale(DType dtype, void* out, const void* in, std::size_t count, std::uint64_t divisor);
void average(DType dtype, void* out, const void* left, const void* right, std::size_t count,
             std::uint64_t divisor);
}  // namespace reference

}  // namespace kolo::kernels

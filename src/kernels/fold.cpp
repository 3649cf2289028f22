// Folds: many arrays into one, for the sums of shared memory.
#include "kernels/families.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/fold.cpp"
#include "hwy/foreach_target.h"
// Per-target headers come after foreach_target.h.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "kernels/fold_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace kolo::kernels::HWY_NAMESPACE {

/// Null for what is rare: each kernel here costs about a kilobyte for each instruction set.
FoldFn find_fused(DType dtype, ReduceOp op) {
  switch (dtype) {
    case DType::float32:
      return pick_fold<PlainCodec<float>>(op);
    case DType::float64:
      return pick_fold<PlainCodec<double>>(op);
    case DType::float16:
      return pick_fold<Float16Codec>(op);
    case DType::bfloat16:
      return pick_fold<BFloat16Codec>(op);
    case DType::int32:
    case DType::uint32:
      return op == ReduceOp::sum ? fold_with<PlainCodec<std::uint32_t>, Sum> : nullptr;
    case DType::int64:
    case DType::uint64:
      return op == ReduceOp::sum ? fold_with<PlainCodec<std::uint64_t>, Sum> : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace kolo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kolo::kernels {
namespace {

/// The others: the pairwise kernels, on blocks that stay in the nearest cache.
template <DType kType, ReduceOp kOp>
void fold_in_blocks(void* const* outs, std::size_t out_count, const void* const* ins, std::size_t in_count,
                    std::size_t count, std::uint64_t divisor) {
  if (in_count == 1) {
    copy_to_all(outs, out_count, ins[0], count * size_of(kType));
    return;
  }
  constexpr std::size_t kBytes = 4096;
  constexpr std::size_t kElements = kBytes / size_of(kType);
  alignas(64) std::byte sum[kBytes];
  const ReduceFn reduce = reduce_function(kType, kOp);
  const AverageFn average = average_function(kType);
  for (std::size_t done = 0; done < count; done += kElements) {
    const std::size_t n = std::min(kElements, count - done);
    const std::size_t at = done * size_of(kType);
    const auto in = [&](std::size_t k) { return static_cast<const std::byte*>(ins[k]) + at; };
    const void* left = in(0);
    for (std::size_t k = 1; k < in_count; ++k) {
      if (kOp == ReduceOp::average && k + 1 == in_count) {
        average(sum, left, in(k), n, divisor);
      } else {
        reduce(sum, left, in(k), n);
      }
      left = sum;
    }
    for (std::size_t k = 0; k < out_count; ++k) {
      std::memcpy(static_cast<std::byte*>(outs[k]) + at, sum, n * size_of(kType));
    }
  }
}

constexpr std::size_t kBuiltinOps = static_cast<std::size_t>(ReduceOp::custom);

/// By dtype, then by operation.
template <std::size_t... kIndex>
constexpr auto every_fold_in_blocks(std::index_sequence<kIndex...>) {
  return std::array<FoldFn, sizeof...(kIndex)>{
      fold_in_blocks<static_cast<DType>(kIndex / kBuiltinOps),
                     static_cast<ReduceOp>(kIndex % kBuiltinOps)>...};
}

}  // namespace

void copy_to_all(void* const* outs, std::size_t out_count, const void* in, std::size_t bytes) {
  for (std::size_t k = 0; k < out_count; ++k) {
    if (outs[k] != in) copy(outs[k], in, bytes);
  }
}

HWY_EXPORT(find_fused);

FoldFn fold_function(DType dtype, ReduceOp op) {
  static constexpr auto kInBlocks =
      every_fold_in_blocks(std::make_index_sequence<kDTypeCount * kBuiltinOps>());
  if (op == ReduceOp::custom) return nullptr;
  if (const FoldFn fused = HWY_DYNAMIC_DISPATCH(find_fused)(dtype, op)) return fused;
  return kInBlocks[static_cast<std::size_t>(dtype) * kBuiltinOps + static_cast<std::size_t>(op)];
}

}  // namespace kolo::kernels
#endif  // HWY_ONCE

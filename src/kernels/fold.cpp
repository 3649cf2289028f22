// Folds: many arrays into one, for reductions in shared memory.
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

/// Complex numbers are folded as twice as many numbers.
template <typename T, ReduceOp kOp>
void fold_complex(void* const* outs, std::size_t out_count, const void* const* ins, std::size_t in_count,
                  std::size_t count, std::uint64_t divisor) {
  pick_fold<PlainCodec<T>>(kOp)(outs, out_count, ins, in_count, 2 * count, divisor);
}

/// Null for rare types and operations, and for types whose conversion takes a dozen instructions. A fused
/// kernel gains by saving memory traffic, and costs two kilobytes for each instruction set.
FoldFn find_fused(DType dtype, ReduceOp op) {
  return with_type(dtype, [&]<typename T>(std::type_identity<T>) -> FoldFn {
    if constexpr (is_floating(dtype_of<T>)) {
      if constexpr (CodecOf<T>::kIsFused) return pick_fold<CodecOf<T>>(op);
      return nullptr;
    } else if constexpr (is_complex(dtype_of<T>)) {
      using Part = typename T::value_type;
      if (op == ReduceOp::average) return fold_complex<Part, ReduceOp::average>;
      return op == ReduceOp::sum ? fold_complex<Part, ReduceOp::sum> : nullptr;
    } else if constexpr (sizeof(T) >= 4) {
      return op == ReduceOp::sum ? fold_with<PlainCodec<std::make_unsigned_t<T>>, Sum> : nullptr;
    } else {
      return nullptr;
    }
  });
}

}  // namespace kolo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kolo::kernels {
namespace {

/// Types and operations without a fused kernel: the pairwise kernels, on blocks that stay in the nearest
/// cache.
void fold_in_blocks(DType dtype, ReduceOp op, void* const* outs, std::size_t out_count,
                    const void* const* ins, std::size_t in_count, std::size_t bytes, std::uint64_t divisor) {
  constexpr std::size_t kBlock = 4096;
  alignas(64) std::byte sum[kBlock];
  alignas(64) std::byte scaled[kBlock];
  const ReduceFn reduce = reduce_function(dtype, op);
  const AverageFn average = average_function(dtype);
  const ScaleFn scale = op == ReduceOp::average && is_scaled(dtype) ? scale_function(dtype) : nullptr;
  for (std::size_t done = 0; done < bytes; done += kBlock) {
    const std::size_t block = std::min(kBlock, bytes - done);
    const std::size_t count = block / size_of(dtype);
    const auto in = [&](std::size_t k, std::byte* place) -> const void* {
      const std::byte* const own = static_cast<const std::byte*>(ins[k]) + done;
      if (scale == nullptr) return own;
      scale(place, own, count, average_scale(size_of(dtype), divisor));
      return place;
    };
    const void* left = in(0, sum);
    for (std::size_t k = 1; k < in_count; ++k) {
      if (op == ReduceOp::average && k + 1 == in_count) {
        average(sum, left, in(k, scaled), count, divisor);
      } else {
        reduce(sum, left, in(k, scaled), count);
      }
      left = sum;
    }
    for (std::size_t k = 0; k < out_count; ++k) {
      std::memcpy(static_cast<std::byte*>(outs[k]) + done, left, block);
    }
  }
}

template <DType kType, ReduceOp kOp>
void blockwise(void* const* outs, std::size_t out_count, const void* const* ins, std::size_t in_count,
               std::size_t count, std::uint64_t divisor) {
  const std::size_t bytes = count * size_of(kType);
  if (in_count == 1) {
    copy_to_all(outs, out_count, ins[0], bytes);
  } else {
    fold_in_blocks(kType, kOp, outs, out_count, ins, in_count, bytes, divisor);
  }
}

/// Indexed by dtype, then by operation.
template <std::size_t... kIndex>
constexpr auto every_blockwise(std::index_sequence<kIndex...>) {
  return std::array<FoldFn, sizeof...(kIndex)>{blockwise<static_cast<DType>(kIndex / kReduceOpCount),
                                                         static_cast<ReduceOp>(kIndex % kReduceOpCount)>...};
}

}  // namespace

void copy_to_all(void* const* outs, std::size_t out_count, const void* in, std::size_t bytes) {
  for (std::size_t k = 0; k < out_count; ++k) {
    if (outs[k] != in) copy(outs[k], in, bytes);
  }
}

HWY_EXPORT(find_fused);

FoldFn fold_function(DType dtype, ReduceOp op) {
  static constexpr auto kBlockwise =
      every_blockwise(std::make_index_sequence<kDTypeCount * kReduceOpCount>());
  if (op == ReduceOp::custom || !knows(dtype, op)) return nullptr;
  if (const FoldFn fused = HWY_DYNAMIC_DISPATCH(find_fused)(dtype, op)) return fused;
  return kBlockwise[static_cast<std::size_t>(dtype) * kReduceOpCount + static_cast<std::size_t>(op)];
}

}  // namespace kolo::kernels
#endif  // HWY_ONCE

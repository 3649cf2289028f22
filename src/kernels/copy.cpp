// copy(): memcpy, and streaming stores for data that does not fit in the cache anyway.
#include "kernels/kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/copy.cpp"
#include "hwy/foreach_target.h"
// Per-target headers come after foreach_target.h.
#include <cstdint>
#include <cstring>

#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kolo::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void stream_copy(std::uint8_t* out, const std::uint8_t* in, std::size_t bytes) {
  const hn::ScalableTag<std::uint8_t> d;
  const std::size_t n = hn::Lanes(d);
  // Streaming stores need alignment; whole cache lines are written in one piece.
  const std::size_t line = n > 64 ? n : 64;
  const std::size_t to_line = (line - reinterpret_cast<std::uintptr_t>(out) % line) % line;
  const std::size_t head = bytes < to_line ? bytes : to_line;
  if (head > 0) std::memcpy(out, in, head);
  std::size_t i = head;
  for (; i + 4 * n <= bytes; i += 4 * n) {
    const auto v0 = hn::LoadU(d, in + i);
    const auto v1 = hn::LoadU(d, in + i + n);
    const auto v2 = hn::LoadU(d, in + i + 2 * n);
    const auto v3 = hn::LoadU(d, in + i + 3 * n);
    hn::Stream(v0, d, out + i);
    hn::Stream(v1, d, out + i + n);
    hn::Stream(v2, d, out + i + 2 * n);
    hn::Stream(v3, d, out + i + 3 * n);
  }
  hwy::FlushStream();  // streaming stores are not ordered with others, and another thread may be told next
  if (bytes > i) std::memcpy(out + i, in + i, bytes - i);
}

}  // namespace kolo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kolo::kernels {
namespace {

/// When `in` and `out` fill the cache that a core can use, streaming saves reading `out` before it is
/// overwritten. Measured (EPYC of the Zen 4 kind, 32 MiB of L3 per core complex; the C library counts the L3
/// of all complexes as one and streams only from 240 MiB up): 64 MiB at 1.4 times memcpy, with the result
/// read afterwards 1.3 times; 4 MiB that are read afterwards at half of memcpy.
constexpr std::size_t kStreamingBytes = std::size_t{32} << 20;

}  // namespace

HWY_EXPORT(stream_copy);

void copy(void* out, const void* in, std::size_t bytes) {
  if (bytes >= kStreamingBytes) {
    HWY_DYNAMIC_DISPATCH(stream_copy)
    (static_cast<std::uint8_t*>(out), static_cast<const std::uint8_t*>(in), bytes);
  } else if (bytes != 0) {
    std::memcpy(out, in, bytes);
  }
}

void copy_for_others(void* out, const void* in, std::size_t bytes) {
  HWY_DYNAMIC_DISPATCH(stream_copy)
  (static_cast<std::uint8_t*>(out), static_cast<const std::uint8_t*>(in), bytes);
}

void own_lines(void* data, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  auto* const at = static_cast<volatile unsigned char*>(data);
  for (std::size_t i = 0; i < bytes; i += kLine) at[i] = at[i];
  if (bytes > 0) at[bytes - 1] = at[bytes - 1];
}

}  // namespace kolo::kernels
#endif  // HWY_ONCE

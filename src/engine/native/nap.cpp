#include "engine/native/nap.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <ctime>

namespace kolo::engine::native {
namespace {

/// The half of the number that changes with each share. The futex is shared between processes, so not
/// private.
std::uint32_t* low_half(std::atomic<std::uint64_t>& number) {
  static_assert(sizeof number == 2 * sizeof(std::uint32_t));
  auto* const halves = reinterpret_cast<std::uint32_t*>(&number);
  return std::endian::native == std::endian::little ? halves : halves + 1;
}

}  // namespace

void nap(transport::SliceCounters& counters, std::uint64_t seen, std::chrono::nanoseconds longest) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(longest);
  const timespec limit{static_cast<std::time_t>(seconds.count()),
                       static_cast<long>((longest - seconds).count())};
  counters.napping.fetch_add(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  ::syscall(SYS_futex, low_half(counters.finished), FUTEX_WAIT, static_cast<std::uint32_t>(seen), &limit,
            nullptr, 0);
  counters.napping.fetch_sub(1, std::memory_order_relaxed);
}

void wake_nappers(transport::SliceCounters& counters, int most) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (counters.napping.load(std::memory_order_relaxed) == 0) return;
  ::syscall(SYS_futex, low_half(counters.finished), FUTEX_WAKE, most, nullptr, nullptr, 0);
}

}  // namespace kolo::engine::native

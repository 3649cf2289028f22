#include "engine/shared_memory/nap.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <ctime>
#include <limits>

namespace kolo::engine::shared_memory {
namespace {

/// The half of the number that changes with each share. The futex is shared between processes, so not
/// private.
std::uint32_t* low_half(std::atomic<std::uint64_t>& number) {
  static_assert(sizeof number == 2 * sizeof(std::uint32_t));
  auto* const halves = reinterpret_cast<std::uint32_t*>(&number);
  return std::endian::native == std::endian::little ? halves : halves + 1;
}

constexpr std::uint32_t kWaits = 1;
constexpr std::uint32_t kSums = 2;

void wake(SliceCounters& counters, int most, std::uint32_t which) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (counters.napping.load(std::memory_order_relaxed) == 0) return;
  ::syscall(SYS_futex, low_half(counters.finished), FUTEX_WAKE_BITSET, most, nullptr, nullptr, which);
}

}  // namespace

void nap(SliceCounters& counters, std::uint64_t seen, std::chrono::nanoseconds longest, bool sums) {
  // FUTEX_WAIT_BITSET takes a time of this clock.
  const auto until = std::chrono::steady_clock::now().time_since_epoch() + longest;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(until);
  const timespec limit{static_cast<std::time_t>(seconds.count()),
                       static_cast<long>((until - seconds).count())};
  counters.napping.fetch_add(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  ::syscall(SYS_futex, low_half(counters.finished), FUTEX_WAIT_BITSET, static_cast<std::uint32_t>(seen),
            &limit, nullptr, sums ? kWaits | kSums : kWaits);
  counters.napping.fetch_sub(1, std::memory_order_relaxed);
}

void wake_nappers(SliceCounters& counters) {
  wake(counters, std::numeric_limits<int>::max(), kWaits);
}

void wake_to_sum(SliceCounters& counters) {
  wake(counters, 1, kSums);
}

}  // namespace kolo::engine::shared_memory

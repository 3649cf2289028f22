#include "engine/shared_memory/nap.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>
#include <limits>

namespace kolo::engine::shared_memory {
namespace {

constexpr std::uint32_t kWaits = 1;
constexpr std::uint32_t kSums = 2;

void ring(SliceCounters& counters, int most, std::uint32_t which) {
  counters.bell.fetch_add(1, std::memory_order_release);
  // The bell is shared between processes, so the futex is not private.
  ::syscall(SYS_futex, &counters.bell, FUTEX_WAKE_BITSET, most, nullptr, nullptr, which);
}

void wake(SliceCounters& counters, int most, std::uint32_t which) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (counters.napping.load(std::memory_order_relaxed) > 0) ring(counters, most, which);
}

}  // namespace

void nap(SliceCounters& counters, std::uint64_t seen, std::chrono::nanoseconds longest, bool sums,
         const std::atomic<bool>& interrupted) {
  // FUTEX_WAIT_BITSET takes a time of this clock.
  const auto until = std::chrono::steady_clock::now().time_since_epoch() + longest;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(until);
  const timespec limit{static_cast<std::time_t>(seconds.count()),
                       static_cast<long>((until - seconds).count())};
  counters.napping.fetch_add(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const std::uint32_t rung = counters.bell.load(std::memory_order_acquire);
  if (counters.finished.load(std::memory_order_relaxed) == seen &&
      !interrupted.load(std::memory_order_relaxed))
    ::syscall(SYS_futex, &counters.bell, FUTEX_WAIT_BITSET, rung, &limit, nullptr,
              sums ? kWaits | kSums : kWaits);
  counters.napping.fetch_sub(1, std::memory_order_relaxed);
}

void wake_nappers(SliceCounters& counters) {
  wake(counters, std::numeric_limits<int>::max(), kWaits);
}

void wake_to_sum(SliceCounters& counters) {
  wake(counters, 1, kSums);
}

void interrupt_nap(SliceCounters& counters, std::atomic<bool>& interrupted) {
  interrupted.store(true, std::memory_order_relaxed);
  ring(counters, std::numeric_limits<int>::max(), kWaits);
}

}  // namespace kolo::engine::shared_memory

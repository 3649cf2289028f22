// Counts the calls of operator new in this process, and lets one of them fail.
#pragma once

#include <atomic>
#include <cstdint>

namespace kolo::test {

/// The calls so far, of all threads.
std::uint64_t allocations();
/// The n-th call from now on, of any thread, sets `failed` and throws std::bad_alloc; 0: none does.
void fail_allocation(std::uint64_t n, std::atomic<bool>& failed);

}  // namespace kolo::test

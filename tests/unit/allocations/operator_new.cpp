#include "unit/allocations/operator_new.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"  // g++ 12 does not see that both are replaced
#endif

namespace {

constexpr std::uint64_t kNever = ~std::uint64_t{0};

std::atomic<std::uint64_t> calls{0};
std::atomic<std::uint64_t> fails_at{kNever};
std::atomic<bool>* failing = nullptr;

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (calls.fetch_add(1, std::memory_order_relaxed) == fails_at.load(std::memory_order_relaxed)) {
    *failing = true;
    throw std::bad_alloc();
  }
  // aligned_alloc() takes multiples of the alignment.
  void* memory = std::aligned_alloc(
      alignment, (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

namespace kolo::test {

std::uint64_t allocations() {
  return calls.load();
}

void fail_allocation(std::uint64_t n, std::atomic<bool>& failed) {
  failing = &failed;
  fails_at = n == 0 ? kNever : calls.load() + n - 1;
}

}  // namespace kolo::test

void* operator new(std::size_t bytes) {
  return allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new[](std::size_t bytes) {
  return allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

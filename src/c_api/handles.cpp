#include "c_api/handles.hpp"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <string_view>

namespace kolo::c_api {
namespace {

constexpr auto kKindNames =
    std::to_array<std::string_view>({"communicator", "work", "store", "store server", "timeline",
                                     "sparse sum", "memory of a sparse sum", "batch"});

/// A handle is, from its lowest bit on: the number of its slot (24 bits), its kind plus 1 (8), and how often
/// the slot has been used (32). So no handle is issued twice.
constexpr int kSlotBits = 24;
constexpr std::uint64_t kSlots = 1u << 18;

struct Slot {
  std::uint64_t handle;  ///< the live one; 0: none
  void* object;
  void (*destroy)(void*);
  std::uint32_t uses;       ///< guarded by the mutex
  std::uint32_t next_free;  ///< guarded by the mutex
};

// Slots stay, so that a look-up takes no lock; those never used cost no memory. Slot 0 heads the list of free
// slots.
constinit Slot slots[kSlots] = {};
constinit std::mutex mutex;
constinit std::uint32_t last_used = 0;

std::uint64_t number_of(const void* handle) noexcept {
  return reinterpret_cast<std::uintptr_t>(handle);
}

std::uint64_t slot_in(std::uint64_t handle) noexcept {
  return handle % kSlots;
}

std::size_t kind_in(std::uint64_t handle) noexcept {
  return (handle >> kSlotBits & 0xff) - 1;
}

}  // namespace

void* issue_handle(Kind kind, void* object, void (*destroy)(void*)) {
  // A forked child may end its parent's handles.
  const auto unlock = [] { mutex.unlock(); };
  [[maybe_unused]] static const int at_fork = pthread_atfork([] { mutex.lock(); }, unlock, unlock);
  const std::lock_guard lock(mutex);
  std::uint32_t number = slots[0].next_free;
  if (number != 0) {
    slots[0].next_free = slots[number].next_free;
  } else {
    if (last_used + 1 == kSlots) throw SystemError("there are 2^18 handles: free some", {});
    number = ++last_used;
  }
  Slot& slot = slots[number];
  slot.object = object;
  slot.destroy = destroy;
  const std::uint64_t kind_bits = (static_cast<std::uint64_t>(kind) + 1) << kSlotBits;
  const std::uint64_t handle = static_cast<std::uint64_t>(++slot.uses) << 32 | kind_bits | number;
  std::atomic_ref(slot.handle).store(handle, std::memory_order_release);
  return reinterpret_cast<void*>(handle);  // NOLINT: not an address
}

void* object_of(Kind kind, const void* handle) noexcept {
  const std::uint64_t number = number_of(handle);
  Slot& slot = slots[slot_in(number)];
  const bool is_live = number != 0 && std::atomic_ref(slot.handle).load(std::memory_order_acquire) == number;
  return is_live && kind_in(number) == static_cast<std::size_t>(kind) ? slot.object : nullptr;
}

void* retire_handle(Kind kind, const void* handle) noexcept {
  const std::lock_guard lock(mutex);
  void* const object = object_of(kind, handle);
  if (object == nullptr) return nullptr;
  const auto number = static_cast<std::uint32_t>(slot_in(number_of(handle)));
  std::atomic_ref(slots[number].handle).store(0, std::memory_order_relaxed);
  slots[number].next_free = slots[0].next_free;
  slots[0].next_free = number;
  return object;
}

void release_handle(const void* handle) {
  const std::uint64_t number = number_of(handle);
  void (*const destroy)(void*) = slots[slot_in(number)].destroy;
  void* const object = retire_handle(static_cast<Kind>(kind_in(number)), handle);
  if (object == nullptr) throw Misuse("the handle was freed, or never made");
  destroy(object);
}

void refuse_handle(Kind kind, const void* handle) {
  const std::string name(kKindNames[static_cast<std::size_t>(kind)]);
  if (handle == nullptr) throw Misuse("the " + name + " is null");
  const std::size_t other = kind_in(number_of(handle));
  if (other < kKindNames.size() && object_of(static_cast<Kind>(other), handle) != nullptr)
    throw Misuse("the handle is of a " + std::string(kKindNames[other]) + ", and not of a " + name);
  throw Misuse("the handle is of no " + name + ": that was freed, or never made");
}

}  // namespace kolo::c_api

// Handles: what C programs hold of the objects of kolo. A handle is a number in the form of a pointer, never
// an address: one that has been freed, is of another kind or was never made is told without a look into
// memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kolo/call_batch.hpp"
#include "kolo/communicator.hpp"
#include "kolo/kolo_types.h"
#include "kolo/sparse.hpp"

namespace kolo::c_api {

/// What only C can get wrong: guarded() puts the function's name before its text.
class Misuse : public InvalidArgumentError {
 public:
  explicit Misuse(const std::string& what) : InvalidArgumentError(what, {}) {}
};

/// In the order of kKindNames.
enum class Kind : std::uint8_t {
  communicator,
  work,
  store,
  store_server,
  timeline,
  sparse,
  sparse_memory,
  batch
};

/// A new handle of an object. Thread-safe, as the functions below.
void* issue_handle(Kind kind, void* object, void (*destroy)(void*));
/// The object of a handle; null if it is no handle of this kind.
void* object_of(Kind kind, const void* handle) noexcept;
/// Ends a handle, and returns its object; null if it is no handle of this kind.
void* retire_handle(Kind kind, const void* handle) noexcept;
/// Ends a handle of any kind, and destroys its object. Throws Misuse.
void release_handle(const void* handle);
[[noreturn]] void refuse_handle(Kind kind, const void* handle);

template <typename Handle>
struct HandleTraits;
#define KOLO_HANDLE(name, Type)               \
  template <>                                 \
  struct HandleTraits<kolo_##name> {          \
    using Object = Type;                      \
    static constexpr Kind kKind = Kind::name; \
  };
KOLO_HANDLE(communicator, Communicator)
KOLO_HANDLE(work, Work)
KOLO_HANDLE(store, std::shared_ptr<Store>)
KOLO_HANDLE(store_server, std::unique_ptr<TcpStoreServer>)
KOLO_HANDLE(timeline, std::shared_ptr<Timeline>)
KOLO_HANDLE(sparse, SparseAllReduce)
using SparseMemory = std::pair<std::vector<std::uint64_t>, std::vector<std::byte>>;
KOLO_HANDLE(sparse_memory, SparseMemory)
struct BatchOf {
  Communicator communicator;
  CallBatch batch;
};
KOLO_HANDLE(batch, BatchOf)
#undef KOLO_HANDLE

template <typename Handle>
using Object = typename HandleTraits<Handle>::Object;

/// The object of a handle. Throws Misuse.
template <typename Handle>
Object<Handle>& known(const Handle* handle) {
  void* const object = object_of(HandleTraits<Handle>::kKind, handle);
  if (object == nullptr) [[unlikely]]
    refuse_handle(HandleTraits<Handle>::kKind, handle);
  return *static_cast<Object<Handle>*>(object);
}

/// Ends a handle; null if it is none.
template <typename Handle>
std::unique_ptr<Object<Handle>> retire(Handle* handle) noexcept {
  return std::unique_ptr<Object<Handle>>(
      static_cast<Object<Handle>*>(retire_handle(HandleTraits<Handle>::kKind, handle)));
}

struct Retire {
  template <typename Handle>
  void operator()(Handle* handle) const noexcept {
    retire(handle);
  }
};
/// A handle that no program has yet.
template <typename Handle>
using OwnedHandle = std::unique_ptr<Handle, Retire>;

template <typename Handle>
OwnedHandle<Handle> issue(Object<Handle> object) {
  auto owned = std::make_unique<Object<Handle>>(std::move(object));
  const auto destroy = [](void* destroyed) { delete static_cast<Object<Handle>*>(destroyed); };
  OwnedHandle<Handle> handle(
      static_cast<Handle*>(issue_handle(HandleTraits<Handle>::kKind, owned.get(), destroy)));
  (void)owned.release();
  return handle;
}

}  // namespace kolo::c_api

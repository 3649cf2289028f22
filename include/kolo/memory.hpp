// Memory that kolo gives out: the ranks of one host can read it without a copy.
#pragma once

#include <cstddef>
#include <memory>

#include "kolo/buffer.hpp"

namespace kolo {

/// Zeroed, page-aligned memory, in huge pages from 2 MiB on where the system grants them, backed by a memfd
/// that kolo hands to the other ranks of this host when a collective first uses it. It has no name anywhere
/// and disappears with the process. Sums over shared memory then read the peer's data where it lies. It takes
/// a descriptor: many tensors go into a SharedArena. Movable; must outlive every Work that uses it.
class SharedMemory {
 public:
  SharedMemory() noexcept;
  /// Throws SystemError when the memory cannot be had.
  explicit SharedMemory(std::size_t bytes);
  SharedMemory(SharedMemory&&) noexcept;
  SharedMemory& operator=(SharedMemory&&) noexcept;
  ~SharedMemory();

  std::byte* data() const noexcept;
  std::size_t size() const noexcept;
  /// The first `count` elements of `dtype`; throws InvalidArgument when they do not fit.
  Buffer buffer(std::uint64_t count, DType dtype) const;

 private:
  struct Region;
  std::unique_ptr<Region> region_;
};

/// Whether the whole range lies in memory that kolo gave out in this process, as SharedMemory or from a
/// SharedArena. Thread-safe.
bool is_shared(const void* data, std::size_t bytes);

}  // namespace kolo

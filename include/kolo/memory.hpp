// Shared memory for buffers: the ranks of one host can read it without a copy.
#pragma once

#include <cstddef>
#include <memory>

#include "kolo/buffer.hpp"

namespace kolo {

/// Zeroed, page-aligned memory, backed by a memfd; from 2 MiB on in huge pages, if the system grants them.
/// kolo passes the memfd to the other ranks of this host when a collective first uses the memory. Sums over
/// shared memory then read the peer's data in place. The memory has no name in the file system and disappears
/// with the process. Each one takes a descriptor: many tensors go into a SharedArena. Movable; must outlive
/// every Work that uses it.
class SharedMemory {
 public:
  SharedMemory() noexcept;
  /// Throws SystemError if the memory cannot be allocated.
  explicit SharedMemory(std::size_t bytes);
  /// The other one is empty afterwards.
  SharedMemory(SharedMemory&&) noexcept;
  SharedMemory& operator=(SharedMemory&&) noexcept;
  ~SharedMemory();

  /// The first byte; null if there is no memory.
  std::byte* data() const noexcept;
  /// Length in bytes.
  std::size_t size() const noexcept;
  /// The first `count` elements of `dtype`; throws InvalidArgumentError when they do not fit.
  Buffer buffer(std::uint64_t count, DType dtype) const;

 private:
  struct Region;
  std::unique_ptr<Region> region_;
};

/// Whether the whole range lies in a SharedMemory, or in a block of a SharedArena, of this process.
/// Thread-safe.
bool is_shared(const void* data, std::size_t bytes);

}  // namespace kolo

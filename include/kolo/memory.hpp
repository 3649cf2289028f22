// Memory that kolo gives out: the ranks of one host can read it without a copy.
#pragma once

#include <cstddef>
#include <memory>

#include "kolo/buffer.hpp"

namespace kolo {

/// Zeroed, page-aligned memory, backed by a memfd that kolo hands to the other ranks of this host when a
/// collective first uses it. It has no name anywhere and disappears with the process. Sums over shared memory
/// then read the peer's data where it lies. Movable; must outlive every Work that uses it.
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

}  // namespace kolo

// Shared memory for many tensors: blocks out of a few large regions.
#pragma once

#include <cstddef>
#include <memory>

namespace kolo {

/// Allocates blocks of shared memory. As with SharedMemory, the ranks of one host sum them in place, but many
/// blocks share one descriptor: the system's limits on open files and on mappings do not matter. Regions are
/// added when needed and returned to the system when they are empty again, except one. Thread-safe. A process
/// that fork() makes gets regions of its own when it first allocates. Its writes to blocks from before the
/// fork do not reach its parent; a page that it has not written shows what the parent writes there.
class SharedArena {
 public:
  /// Address space that is taken from the system at a time, unless the constructor is told otherwise.
  static constexpr std::size_t kRegionBytes = std::size_t{64} << 20;

  /// `region_bytes`: the address space taken from the system at a time (in multiples of 2 MiB); memory is
  /// taken only as blocks need it. A longer block gets a region of its own length.
  explicit SharedArena(std::size_t region_bytes = kRegionBytes);
  /// The arena of the process.
  static SharedArena& instance();

  /// At least `bytes` bytes at a multiple of 64; contents unspecified. Blocks of 2 MiB and more get huge
  /// pages of their own, if the system grants them. Each starts within the first 4 KiB of its first huge
  /// page, each a little further on: sums over many ranks are slow if all their arrays fall into the same
  /// sets of a cache. The pointer (and every copy of it) keeps the memory alive, even after the arena is
  /// gone; it must outlive every Work that uses the block. Throws SystemError when memory or descriptors run
  /// out.
  std::shared_ptr<std::byte[]> allocate(std::size_t bytes);

  /// What an arena holds now.
  struct Usage {
    std::size_t regions = 0;       ///< taken from the system
    std::size_t region_bytes = 0;  ///< address space of all regions
    std::size_t blocks = 0;        ///< that are in use
    std::size_t block_bytes = 0;   ///< including what alignment adds
  };
  /// Counts at this moment.
  Usage usage() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace kolo

// Regions: registry of the shared memory that this process has given out, searched by address.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace kolo::transport::shm {

inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

constexpr std::size_t round_up(std::size_t number, std::size_t to) {
  return (number + to - 1) / to * to;
}

/// One mapped memfd. Its size is sealed, so a process that maps it can rely on the size. Its pages go back to
/// the system when it is destroyed, even while peers still have them mapped (they then read zeros).
class Region {
 public:
  Region(std::uint64_t id, UniqueFd fd, std::byte* data, std::size_t bytes);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  /// Unique in this process, never reused, never 0.
  std::uint64_t id() const { return id_; }
  int fd() const { return fd_.get(); }
  std::byte* data() const { return data_; }
  /// A multiple of the page size.
  std::size_t bytes() const { return bytes_; }
  /// Gets the memory behind a range of the region from the system: zeroed unless it was there already, in
  /// huge pages if the range is long enough and the system grants them. An error if there is no more memory.
  Status commit(std::size_t offset, std::size_t bytes) const;

  /// Replaces the pages by private copies, for good. Other threads may use the memory meanwhile.
  void detach() const;
  /// In a forked child: what it writes is its own from here on, and not its parent's.
  void leave_to_parent() const;
  bool detached() const { return detached_.load(std::memory_order_acquire); }

 private:
  std::uint64_t id_;
  UniqueFd fd_;
  std::byte* data_;
  std::size_t bytes_;
  mutable std::atomic<bool> detached_{false};  // stored before Regions::freed_ counts it
  int owner_;  // process id: a forked child must not empty its parent's memory
};

/// A sealed memfd of at least `bytes` zeroed bytes (rounded up to pages).
Result<UniqueFd> make_memfd(const char* name, std::size_t bytes);
/// Whether a memfd that a peer passed may be mapped. Its real size must be `bytes`, and it must be sealed
/// against shrinking: a later truncation would kill this process.
Status check_memfd(int fd, std::size_t bytes);
/// Maps all of such a memfd. The address is a multiple of kHugePage if the size is at least that.
Result<std::byte*> map_memfd(int fd, std::size_t bytes, bool writable);

/// All live regions of the process. Thread-safe.
class Regions {
 public:
  static Regions& instance();

  Result<std::shared_ptr<Region>> make(std::size_t bytes);
  /// The region that holds all of the range and is still shared; null if there is none.
  std::shared_ptr<const Region> find(const void* data, std::size_t bytes) const;
  /// Increases with every region that is freed or detached, so that endpoints know when to tell their peers.
  std::uint64_t freed() const { return freed_.load(std::memory_order_acquire); }
  void note_detached() { freed_.fetch_add(1, std::memory_order_release); }

 private:
  void forget(Region* region);

  mutable std::mutex mutex_;
  std::map<std::uintptr_t, std::weak_ptr<const Region>> by_address_;
  std::atomic<std::uint64_t> next_id_{1};
  // Incremented with release after the region has left `by_address_` or is detached; loaded with acquire
  // before a search there. A call that finds the count unchanged at its end trusts its memory. detach()
  // counts, then remaps, then copies the pages. If a peer writes too late for the copy, this rank acquires
  // that store after the count, because x86 and arm64 show a store to all processors at the same time.
  std::atomic<std::uint64_t> freed_{0};
};

}  // namespace kolo::transport::shm

// Channel: shared by two ranks of one process: two rings, two doorbells and the faults that tests inject.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "base/deadline.hpp"
#include "base/unique_fd.hpp"
#include "transport/byte_ring.hpp"

namespace kolo::transport::inproc {

/// Bytes of each direction's ring. Long messages do not go through it: the receiver reads them in place.
inline constexpr std::size_t kRingBytes = 256 << 10;

/// One side's eventfd. Thread-safe.
class Doorbell {
 public:
  Doorbell();
  bool valid() const { return fd_.valid(); }
  int fd() const { return fd_.get(); }
  void ring();
  void silence();

 private:
  UniqueFd fd_;
};

/// Holds back the bytes of a delayed direction. Thread-safe.
class DelayLine {
 public:
  /// The bytes from position `begin` on were written at `now` and become readable at `due`.
  void hold(std::uint64_t begin, Clock::time_point due);
  /// The position up to which bytes may be read now, at most `end`. Sets `next` to the time at which that
  /// changes, if bytes are held back.
  std::uint64_t readable(std::uint64_t end, Clock::time_point& next);
  void clear();

 private:
  struct Held {
    std::uint64_t begin;
    Clock::time_point due;
  };
  std::mutex mutex_;
  std::deque<Held> held_;
};

/// The bytes from one side to the other.
struct Direction {
  RingControl control{};
  /// The reader is reading memory that the writer exposed. The reader stores false after its reads.
  /// `InprocEndpoint::revoke()` loads it before the caller writes there.
  std::atomic<bool> pulling{false};
  std::unique_ptr<std::byte[]> data = std::make_unique<std::byte[]>(kRingBytes);
  DelayLine delay_line;
};

/// Side 0 is the lower rank, side 1 the higher. Direction s carries what side s writes. The faults and the
/// doorbells may be used by any thread.
class Channel {
 public:
  Channel(int low_rank, int high_rank) : ranks_{low_rank, high_rank} {}

  bool valid() const { return doorbells_[0].valid() && doorbells_[1].valid(); }
  int rank(int side) const { return ranks_[side]; }
  Direction& direction(int writer) { return directions_[writer]; }
  Doorbell& doorbell(int side) { return doorbells_[side]; }

  void set_delay(std::chrono::nanoseconds delay);
  std::chrono::nanoseconds delay() const {
    return std::chrono::nanoseconds(delay_.load(std::memory_order_relaxed));
  }
  /// No byte moves through the channel while either of its ranks is stalled.
  void set_stalled(int side, bool stalled);
  bool stalled() const { return stalled_[0].load() || stalled_[1].load(); }
  /// Ends the channel for both sides: what is in the rings can still be read.
  void end();
  bool ended() const { return ended_.load(std::memory_order_acquire); }

 private:
  void ring_both();

  const int ranks_[2];
  Direction directions_[2];
  Doorbell doorbells_[2];
  std::atomic<std::int64_t> delay_{0};  // relaxed: bytes on their way may have the old delay or the new one
  std::atomic<bool> stalled_[2] = {false, false};
  // Stored with release after the last bytes, loaded with acquire before the last read of the ring. A sleeper
  // that misses it is woken by the doorbell, which rings after the store.
  std::atomic<bool> ended_{false};
};

/// Rings `channel`'s doorbell of `side` at `when`, if the channel still exists then. Thread-safe.
void ring_later(const std::shared_ptr<Channel>& channel, int side, Clock::time_point when);

}  // namespace kolo::transport::inproc

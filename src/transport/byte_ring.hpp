// RingWriter and RingReader: a single-producer, single-consumer ring of bytes in memory that both sides
// share.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace kolo::transport {

/// The shared part of a ring. All zero is an empty ring with no sleeping reader and no waiting writer. Each
/// cache line is written by one side only. While bytes flow, only `head` and `tail` change, so polling the
/// other fields stays within the poller's own cache.
struct RingControl {
  static constexpr std::size_t kLine = 64;

  /// Bytes ever written. The store follows the bytes, and the reader's acquire load comes before it reads
  /// them.
  alignas(kLine) std::atomic<std::uint64_t> head;
  /// Bytes ever read. The store follows the reads, and the writer's acquire load comes before it overwrites
  /// them.
  alignas(kLine) std::atomic<std::uint64_t> tail;
  /// The reader wants the doorbell when bytes come. 0 is stored relaxed: a writer that misses it rings in
  /// vain. The exchange that takes the wish back decides which side rings; it orders nothing.
  alignas(kLine) std::atomic<std::uint32_t> reader_sleeps;
  std::atomic<std::uint32_t> reader_closed;  ///< orders nothing: the writer stops
  /// The writer wants the doorbell when there is room. Memory orders as for `reader_sleeps`.
  alignas(kLine) std::atomic<std::uint32_t> writer_waits;
  /// Stored with release after the last `head`, loaded with acquire before the last load of `head`.
  std::atomic<std::uint32_t> writer_closed;
  /// The memory that the writer exposed may hold other data by now. Both sides use a read-modify-write. If
  /// the reader's finds 0, it precedes the writer's, which acquires it. So all that the reader has read
  /// before precedes all that the writer stores afterwards. A plain load would let the reads move past it.
  std::atomic<std::uint32_t> writer_revoked;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free);

/// A long copy is published every so many bytes, so the other side works while the copy continues.
inline constexpr std::size_t kRingPiece = 32 << 10;

// No lost wake-up: the sleeper stores its flag, then loads the other side's position; the other side stores
// its position, then loads the flag. All four are sequentially consistent, so at least one side sees the
// other's store. A position from shared memory is used only after a check: a broken peer may write anything
// there, but cannot make this side leave the ring.

/// The writing side. One thread at a time. `capacity` is a power of two.
class RingWriter {
 public:
  RingWriter(RingControl* control, std::byte* data, std::size_t capacity)
      : control_(control), data_(data), capacity_(capacity) {}

  /// Copies as much of `parts` as fits and returns how many bytes. Calls `ring_doorbell` after it has
  /// published a piece while the reader sleeps.
  template <typename Doorbell>
  std::size_t write(std::span<const iovec> parts, Doorbell&& ring_doorbell) {
    std::size_t written = 0;
    for (const iovec& part : parts) {
      const auto* from = static_cast<const std::byte*>(part.iov_base);
      std::size_t left = part.iov_len;
      while (left > 0) {
        const std::size_t free = room(std::min(left, kRingPiece));
        if (free == 0) break;
        const std::size_t piece = std::min({left, free, kRingPiece});
        copy_in(from, piece);
        written += piece;
        unpublished_ += piece;
        if (unpublished_ >= kRingPiece) publish(ring_doorbell);
        from += piece;
        left -= piece;
      }
      if (left > 0) break;
    }
    if (unpublished_ > 0) publish(ring_doorbell);
    return written;
  }

  /// Whether a byte would fit now.
  bool has_room() { return room(1) > 0; }
  /// Asks for the doorbell when there is room again; returns false when there is room already.
  bool wait_for_room() {
    control_->writer_waits.store(1, std::memory_order_seq_cst);
    look(std::memory_order_seq_cst);
    return room(1) == 0;
  }
  void stop_waiting() { control_->writer_waits.store(0, std::memory_order_relaxed); }
  /// Tells the reader that no more bytes follow.
  void close() { control_->writer_closed.store(1, std::memory_order_release); }
  /// Withdraws what was exposed, before the caller's later stores.
  void revoke() { control_->writer_revoked.exchange(1, std::memory_order_seq_cst); }
  bool reader_closed() const { return control_->reader_closed.load(std::memory_order_acquire) != 0; }
  /// True once the reader's position made no sense; nothing is written from then on.
  bool damaged() const { return damaged_; }
  std::uint64_t position() const { return head_; }

 private:
  /// Free bytes. Loads the reader's position only when fewer than `wanted` are known to be free.
  std::size_t room(std::size_t wanted) {
    if (capacity_ - (head_ - tail_) < wanted) look(std::memory_order_acquire);
    return damaged_ ? 0 : capacity_ - (head_ - tail_);
  }
  /// The reader can only have moved forward, and not past what was written.
  void look(std::memory_order order) {
    const std::uint64_t tail = control_->tail.load(order);
    damaged_ |= tail - tail_ > head_ - tail_;
    if (!damaged_) tail_ = tail;
  }
  void copy_in(const std::byte* from, std::size_t bytes) {
    const std::size_t at = head_ & (capacity_ - 1);
    const std::size_t first = std::min(bytes, capacity_ - at);
    std::memcpy(data_ + at, from, first);
    std::memcpy(data_, from + first, bytes - first);
    head_ += bytes;
  }
  template <typename Doorbell>
  void publish(Doorbell& ring_doorbell) {
    unpublished_ = 0;
    control_->head.store(head_, std::memory_order_seq_cst);
    if (control_->reader_sleeps.load(std::memory_order_seq_cst) != 0 &&
        control_->reader_sleeps.exchange(0, std::memory_order_acq_rel) != 0) {
      ring_doorbell();
    }
  }

  RingControl* control_;
  std::byte* data_;
  std::size_t capacity_;
  std::uint64_t head_ = 0;  ///< this side's: never read back from shared memory
  std::uint64_t tail_ = 0;  ///< the reader's, as last loaded
  std::size_t unpublished_ = 0;
  bool damaged_ = false;
};

/// The reading side. One thread at a time.
class RingReader {
 public:
  RingReader(RingControl* control, const std::byte* data, std::size_t capacity)
      : control_(control), data_(data), capacity_(capacity) {}

  /// Copies at most `into.size()` bytes and returns how many. Calls `ring_doorbell` when the writer waits for
  /// room and at least a quarter of the ring is free.
  template <typename Doorbell>
  std::size_t read(std::span<std::byte> into, Doorbell&& ring_doorbell) {
    std::size_t done = 0;
    while (done < into.size()) {
      const std::size_t piece = std::min({into.size() - done, available(), kRingPiece});
      if (piece == 0) break;
      const std::size_t at = tail_ & (capacity_ - 1);
      const std::size_t first = std::min(piece, capacity_ - at);
      std::memcpy(into.data() + done, data_ + at, first);
      std::memcpy(into.data() + done + first, data_, piece - first);
      done += piece;
      tail_ += piece;
      control_->tail.store(tail_, std::memory_order_seq_cst);
      // Waking the writer for a few bytes at a time is slow: wait for a quarter of the ring. Bytes left in
      // the ring keep the reader busy, so it checks here again.
      if (control_->writer_waits.load(std::memory_order_seq_cst) != 0 &&
          head_ - tail_ <= capacity_ - capacity_ / 4 &&
          control_->writer_waits.exchange(0, std::memory_order_acq_rel) != 0) {
        ring_doorbell();
      }
    }
    return done;
  }

  /// Bytes that can be read now. Loads the writer's position only when none are known.
  std::size_t available() {
    if (head_ == tail_) look(std::memory_order_acquire);
    return damaged_ ? 0 : static_cast<std::size_t>(head_ - tail_);
  }
  /// Asks for the doorbell when bytes come; returns false when there are some already.
  bool sleep() {
    control_->reader_sleeps.store(1, std::memory_order_seq_cst);
    look(std::memory_order_seq_cst);
    return available() == 0;
  }
  void stop_sleeping() { control_->reader_sleeps.store(0, std::memory_order_relaxed); }
  /// Tells the writer that no side reads any more.
  void close() { control_->reader_closed.store(1, std::memory_order_release); }
  /// True when the writer has closed; whatever it wrote before is available() by then.
  bool writer_closed() const { return control_->writer_closed.load(std::memory_order_acquire) != 0; }
  /// True once the writer has revoked; follows the caller's earlier loads of exposed memory.
  bool writer_revoked() const { return control_->writer_revoked.fetch_or(0, std::memory_order_seq_cst) != 0; }
  /// True once the writer's position made no sense; nothing is read from then on.
  bool damaged() const { return damaged_; }
  std::uint64_t position() const { return tail_; }

 private:
  /// The writer can only have moved forward, and not past what it may overwrite.
  void look(std::memory_order order) {
    const std::uint64_t head = control_->head.load(order);
    damaged_ |= head - tail_ > capacity_ || head - tail_ < head_ - tail_;
    if (!damaged_) head_ = head;
  }

  RingControl* control_;
  const std::byte* data_;
  std::size_t capacity_;
  std::uint64_t tail_ = 0;  ///< this side's: never read back from shared memory
  std::uint64_t head_ = 0;  ///< the writer's, as last loaded
  bool damaged_ = false;
};

}  // namespace kolo::transport

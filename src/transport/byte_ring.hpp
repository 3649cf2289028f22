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

namespace kolo {

/// The shared part of a ring. All zero is an empty ring that nobody waits on. Each line is written by one
/// side only, and none but head and tail changes while bytes flow, so polling the others stays within one's
/// own cache.
struct RingControl {
  static constexpr std::size_t kLine = 64;

  /// Bytes ever written. The store follows the bytes, and the reader's acquire load comes before it reads
  /// them.
  alignas(kLine) std::atomic<std::uint64_t> head;
  /// Bytes ever read. The store follows the reads, and the writer's acquire load comes before it overwrites
  /// them.
  alignas(kLine) std::atomic<std::uint64_t> tail;
  /// The reader wants the doorbell when bytes come. 0 is stored relaxed: if the writer misses it, it rings in
  /// vain. The exchange that takes the wish back decides who rings; it orders nothing.
  alignas(kLine) std::atomic<std::uint32_t> reader_sleeps;
  std::atomic<std::uint32_t> reader_closed;  ///< orders nothing: the writer stops
  /// The writer wants the doorbell when there is room; orders as `reader_sleeps`.
  alignas(kLine) std::atomic<std::uint32_t> writer_waits;
  /// Stored with release after the last head, loaded with acquire before the last look at head.
  std::atomic<std::uint32_t> writer_closed;
  /// What the writer exposed may be something else by now. Both sides read, modify and write: if the reader
  /// finds 0, its update comes before the writer's, which acquires it. So all that the reader has read before
  /// comes before all that the writer stores afterwards. A mere load would let the reads pass it.
  std::atomic<std::uint32_t> writer_revoked;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free);

/// Bytes after which a long copy is published, so that the other side works while the copy goes on.
inline constexpr std::size_t kRingPiece = 32 << 10;

// Sleeping without losing a wake-up: the sleeper stores its flag and then loads the other side's position;
// the other side stores its position and then loads the flag. All four are sequentially consistent, so at
// least one of the two sees the other. Positions read from shared memory are believed only after a check: a
// broken peer may write anything there, but cannot make this side leave the ring.

/// The writing side. One thread at a time. `capacity` is a power of two.
class RingWriter {
 public:
  RingWriter(RingControl* control, std::byte* data, std::size_t capacity)
      : control_(control), data_(data), capacity_(capacity) {}

  /// Copies as much of `parts` as fits and returns how many bytes. `ring_doorbell` is called after a piece
  /// was published while the reader sleeps.
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
  /// Tells the reader that nothing follows.
  void close() { control_->writer_closed.store(1, std::memory_order_release); }
  /// Withdraws what was exposed, before the caller's later stores.
  void revoke() { control_->writer_revoked.exchange(1, std::memory_order_seq_cst); }
  bool reader_closed() const { return control_->reader_closed.load(std::memory_order_acquire) != 0; }
  /// True once the reader's position made no sense; nothing is written from then on.
  bool damaged() const { return damaged_; }
  std::uint64_t position() const { return head_; }

 private:
  /// Free bytes; looks at the reader's line only when fewer than `wanted` are known to be free.
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
  std::uint64_t head_ = 0;  ///< ours: never read back from shared memory
  std::uint64_t tail_ = 0;  ///< what we last saw of the reader's
  std::size_t unpublished_ = 0;
  bool damaged_ = false;
};

/// The reading side. One thread at a time.
class RingReader {
 public:
  RingReader(RingControl* control, const std::byte* data, std::size_t capacity)
      : control_(control), data_(data), capacity_(capacity) {}

  /// Copies at most `into.size()` bytes and returns how many. `ring_doorbell` is called when the writer waits
  /// for room and a good part of the ring has become free.
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
      // A writer that is woken for each few bytes gets nothing done: wait for a quarter of the ring. What is
      // left in the ring keeps the reader busy, so it will come by here again.
      if (control_->writer_waits.load(std::memory_order_seq_cst) != 0 &&
          head_ - tail_ <= capacity_ - capacity_ / 4 &&
          control_->writer_waits.exchange(0, std::memory_order_acq_rel) != 0) {
        ring_doorbell();
      }
    }
    return done;
  }

  /// Bytes that can be read now; looks at the writer's line only when none are known.
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
  /// Tells the writer that nobody reads any more.
  void close() { control_->reader_closed.store(1, std::memory_order_release); }
  /// True when the writer has closed; whatever it wrote before is available() by then.
  bool writer_closed() const { return control_->writer_closed.load(std::memory_order_acquire) != 0; }
  /// After the caller's earlier loads of exposed memory.
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
  std::uint64_t tail_ = 0;  ///< ours: never read back from shared memory
  std::uint64_t head_ = 0;  ///< what we last saw of the writer's
  bool damaged_ = false;
};

}  // namespace kolo

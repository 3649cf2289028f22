// MailFlags: tell a rank that polls only memory which peers have put something into their sockets.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace kolo::transport::shm {

/// A bit for each peer, in memory that the rank shares with its peers; zero at first. The peer sets its bit
/// after it has put into its socket what the rank would not see in memory. The rank clears the bit, then
/// reads the socket. Relaxed: the lock that the system has for the socket orders both. If peers share a bit,
/// one of them may be noticed only when the rank asks for readable sockets. A model in
/// tests/unit/memory_model checks this.
class MailFlags {
 public:
  void post(std::size_t peer) { word_of(peer).fetch_or(bit_of(peer), std::memory_order_relaxed); }
  /// Whether the peer has set its bit since the last call.
  bool take(std::size_t peer) {
    if ((word_of(peer).load(std::memory_order_relaxed) & bit_of(peer)) == 0) return false;
    word_of(peer).fetch_and(~bit_of(peer), std::memory_order_relaxed);
    return true;
  }

 private:
  static constexpr std::size_t kWords = 64;

  std::atomic<std::uint64_t>& word_of(std::size_t peer) { return words_[peer / 64 % kWords]; }
  static std::uint64_t bit_of(std::size_t peer) { return std::uint64_t{1} << peer % 64; }

  alignas(64) std::atomic<std::uint64_t> words_[kWords];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace kolo::transport::shm

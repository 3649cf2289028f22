// Credit: the bytes of eager messages that one rank may have at another before their receives are posted.
#pragma once

#include <cstdint>

namespace kolo::transport {

/// One direction of a link. The sender takes credit when an eager message leaves, the receiver when its
/// header comes: so the receiver knows what a correct sender cannot exceed. Credit comes back in batches,
/// once the messages are in their receives' memory.
class Credit {
 public:
  /// The memory that a late rank keeps for each peer. A rank that is on time gives credit back while its peer
  /// still has some.
  static constexpr std::uint64_t kBytes = std::uint64_t{16} << 20;
  static constexpr std::uint64_t kBatch = kBytes / 2;         // worth a write of its own
  static constexpr std::uint64_t kWorthSending = kBytes / 4;  // with other frames
  /// What a message without a receive takes beside its bytes.
  static constexpr std::uint64_t kOverhead = 128;

  static constexpr std::uint64_t cost_of(std::uint64_t message_bytes) { return message_bytes + kOverhead; }

  /// Takes nothing and returns false if less is left.
  bool take(std::uint64_t cost) noexcept {
    if (cost > left_) return false;
    left_ -= cost;
    return true;
  }
  /// Returns false if that is more than was taken.
  bool give_back(std::uint64_t cost) noexcept {
    if (cost > kBytes - left_) return false;
    left_ += cost;
    return true;
  }

 private:
  std::uint64_t left_ = kBytes;
};

}  // namespace kolo::transport

// Recovery messages: what survivors of a failure send each other to agree in shrink().
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <vector>

namespace kolo::engine {

struct RecoveryMessage {
  int from;
  std::vector<std::byte> bytes;
};

/// Recovery messages that have come and wait until a communicator receives them. Drops what is too much.
class Mailbox {
 public:
  void add(int from, std::span<const std::byte> bytes) {
    if (messages_.size() >= kMaxMessages || bytes_ + bytes.size() > kMaxBytes) return;
    messages_.push_back({from, {bytes.begin(), bytes.end()}});
    bytes_ += bytes.size();
  }
  template <typename IsMeant>
  bool has(const IsMeant& is_meant) const {
    return std::ranges::any_of(messages_, is_meant);
  }
  /// Takes out the first one for which `is_meant` is true.
  template <typename IsMeant>
  std::optional<RecoveryMessage> take(const IsMeant& is_meant) {
    const auto found = std::ranges::find_if(messages_, is_meant);
    if (found == messages_.end()) return std::nullopt;
    RecoveryMessage message = std::move(*found);
    messages_.erase(found);
    bytes_ -= message.bytes.size();
    return message;
  }

 private:
  static constexpr std::size_t kMaxMessages = 65536;
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;

  std::deque<RecoveryMessage> messages_;
  std::size_t bytes_ = 0;
};

}  // namespace kolo::engine

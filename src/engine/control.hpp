// Control messages between engines: failures, pings and their answers, signs of life, goodbyes, and recovery
// messages of shrink().
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "transport/message.hpp"

namespace kolo::engine {

enum class ControlKind : std::uint32_t {
  abort = 1,
  ping = 2,
  pong = 3,
  goodbye = 4,
  recovery = 5,
  alive = 6
};

/// Why the group of links is unusable. Ranks are link numbers (the first communicator's ranks).
struct Failure {
  Code code = Code::system;
  int blamed = -1;
  std::string reason;   ///< a sentence without the operation, which each rank adds for its own
  bool is_cut = false;  ///< a network connection was closed: the process that is blamed may live
};

/// A ping asks a peer how far it is with one operation; a pong is the answer. A peer that has made another
/// call with this number finds the mismatch at once.
struct Ping {
  static constexpr std::uint32_t kNoContext = ~1u;  ///< asks only whether the peer lives

  std::uint32_t context = kNoContext;
  std::uint32_t timeout_ms = 0;  ///< of the sender's call
  std::uint64_t sequence = 0;
  transport::Signature signature;
};
struct Pong {
  std::uint32_t context = 0;
  std::uint32_t in_flight = 0;      ///< the operation is under way at the peer
  std::uint64_t sequence = 0;       ///< of the ping
  std::uint64_t last_sequence = 0;  ///< the last collective that the peer began in this context
  std::uint32_t last_collective = 0;
  std::uint32_t waits_ms = 0;  ///< longest time without progress in one of the peer's other operations
  /// The first ranks for which operations of the peer have waited for half of the ping's timeout; -1: no
  /// more.
  std::array<std::int32_t, 6> waits_for{-1, -1, -1, -1, -1, -1};
  std::uint32_t left_ms = ~0u;  ///< until the first deadline of those operations
  /// A bit for each rank below 32 with which the peer waits in a create_group().
  std::uint32_t meets = 0;
};

std::vector<std::byte> encode(const Failure& failure);
/// nullopt when the bytes are not a failure.
std::optional<Failure> decode_failure(std::span<const std::byte> bytes);

template <typename T>
std::span<const std::byte> as_payload(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <typename T>
std::optional<T> from_payload(std::span<const std::byte> bytes) {
  if (bytes.size() != sizeof(T)) return std::nullopt;
  T value;
  std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(std::span(&value, 1)).begin());
  return value;
}

}  // namespace kolo::engine

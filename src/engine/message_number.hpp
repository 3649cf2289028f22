// MessageNumber: the number of a point-to-point message, distinct from the numbers of collectives.
#pragma once

#include <cstdint>
#include <optional>

namespace kolo::engine {

struct MessageNumber {
  std::uint32_t tag = 0;    ///< the caller's, below 2^31
  std::uint32_t index = 0;  ///< among the messages in this direction with this tag, from 0

  /// As Tag::sequence. Collectives count from 1 and stay below.
  std::uint64_t sequence() const { return kFirst | std::uint64_t{tag} << 32 | index; }
  /// Nothing for the number of a collective.
  static std::optional<MessageNumber> from_sequence(std::uint64_t sequence) {
    if (sequence < kFirst) return std::nullopt;
    return MessageNumber{static_cast<std::uint32_t>((sequence - kFirst) >> 32),
                         static_cast<std::uint32_t>(sequence)};
  }

 private:
  static constexpr std::uint64_t kFirst = std::uint64_t{1} << 63;
};

}  // namespace kolo::engine

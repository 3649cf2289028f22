// Frames: what Links say to each other over an endpoint's stream of bytes.
#pragma once

#include <cstdint>

#include "transport/endpoint.hpp"
#include "transport/message.hpp"

namespace kolo {

enum class FrameType : std::uint8_t {
  message = 1,  ///< a short message: its bytes follow
  offer = 2,    ///< a message is there: pull it from `range`, or (region kNoRange) say ready
  ready = 3,    ///< the receive of what was offered is posted: send the data
  data = 4,     ///< a long message, or one that was offered: its bytes follow
  done = 5,     ///< the message was met by its receive; its memory is free
  control = 6,  ///< between engines: `bytes` bytes follow, tag.message is their kind
  hold = 7,     ///< many messages wait for their receives: offer those that follow
  go_on = 8,    ///< no longer
};

/// What the handshake compares: counts up when anything changes that ranks say to each other afterwards.
inline constexpr std::uint32_t kWireVersion = 12;

/// Travels in front of every frame, in the byte order of the machine (all ranks run the same build).
struct FrameHeader {
  static constexpr std::uint16_t kMagic = 0x6b4f;
  static constexpr std::uint64_t kNoRange = ~0ull;

  std::uint16_t magic = kMagic;
  FrameType type = FrameType::control;
  std::uint8_t acknowledged = 0;
  std::uint32_t segments = 1;  ///< as MessageRequest::segments
  Tag tag;
  std::uint64_t bytes = 0;
  Signature signature;
  RemoteRange range;
};
static_assert(sizeof(FrameHeader) == 72);

/// A message up to this size comes as a whole; a longer one goes straight to its place, if its receive is
/// there.
inline constexpr std::uint64_t kWholeBytes = 8192;
/// Where the receiver cannot pull, messages up to this size are sent without being asked for: that costs a
/// round trip of the network, and wakes both ends up. Engines cut longer ones, unless they are told
/// otherwise.
inline constexpr std::uint64_t kUnaskedBytes = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kMaxControlBytes = 65536;

}  // namespace kolo

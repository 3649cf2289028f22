// Frames: what Links say to each other over an endpoint's stream of bytes.
#pragma once

#include <cstdint>

#include "transport/endpoint.hpp"
#include "transport/message.hpp"

namespace kolo {

enum class FrameType : std::uint8_t {
  message = 1,  ///< a short message: its bytes follow
  offer = 2,    ///< a long message is there: pull it from `range`, or (region kNoRange) say ready
  ready = 3,    ///< the receive is posted: send the data
  data = 4,     ///< a long message: its bytes follow
  done = 5,     ///< the message was met by its receive; its memory is free
  control = 6,  ///< between engines: `bytes` bytes follow, tag.message is their kind
  hold = 7,     ///< many short messages wait for their receives: offer those that follow, as long ones are
  go_on = 8,    ///< no longer
};

/// What the handshake compares: counts up when anything changes that ranks say to each other afterwards.
inline constexpr std::uint32_t kWireVersion = 9;

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

/// Messages up to this size are sent at once, unless the peer holds them; longer ones wait until their
/// receive is posted. Where the receiver cannot pull, asking costs a round trip of the network, and a message
/// whose receive is there goes straight to its place.
inline constexpr std::uint64_t kEagerBytes = 8192;
inline constexpr std::uint64_t kEagerStreamBytes = 65536;
inline constexpr std::uint64_t kMaxControlBytes = 65536;

}  // namespace kolo

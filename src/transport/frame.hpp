// Frames: the units in which Links talk over an endpoint's stream of bytes.
#pragma once

#include <cstdint>

#include "transport/endpoint.hpp"
#include "transport/message.hpp"

namespace kolo::transport {

enum class FrameType : std::uint8_t {
  eager = 1,    ///< a message that is not longer than the eager limit, or was asked for: its bytes follow
  rts = 2,      ///< a message is ready: pull it from `range` or, if its region is `kNoRange`, answer `cts`
  cts = 3,      ///< the receive of an offered message is posted: send it as an eager one
  ack = 4,      ///< the message matched its receive; its memory is free
  control = 5,  ///< between engines: `bytes` bytes follow, tag.message is their kind
  credit = 6,   ///< eager messages with a cost of `bytes` have been met: as much may be sent again
};

/// Compared by the handshake. Increases with each change to what ranks exchange after it.
inline constexpr std::uint32_t kWireVersion = 22;

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

/// A message up to this size is buffered in one piece. A longer one goes straight to its receive's memory, if
/// the receive is posted.
inline constexpr std::uint64_t kShortMessageBytes = 8192;
/// If the receiver cannot pull, messages up to this size are sent eagerly. Asking first costs a round trip of
/// the network and wakes both ends up. Engines cut longer messages, unless told otherwise.
inline constexpr std::uint64_t kStreamEagerLimit = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kMaxControlBytes = 65536;

}  // namespace kolo::transport

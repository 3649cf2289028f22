// Messages: what the engine hands to a Link, and how both ends know which send matches which receive.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kolo::transport {

/// Identifies one message between two ranks. Both ends derive it from the schedule, so it is unique among the
/// messages in flight.
struct Tag {
  std::uint32_t context = 0;   ///< the communicator
  std::uint32_t message = 0;   ///< which message of the operation
  std::uint64_t sequence = 0;  ///< the operation

  bool operator==(const Tag&) const = default;
};

/// Describes the call that a rank was asked for. Travels with every message, so that ranks that disagree find
/// out. The fields are the engine's enumerations as numbers. Ranks agree exactly if their signatures are
/// equal.
struct Signature {
  std::uint8_t collective = 0;
  std::uint8_t dtype = 0;
  std::uint8_t reduction = 0;  ///< and the wire format
  std::uint8_t algorithm = 0;  ///< index in the registry
  std::int32_t root = 0;
  std::uint64_t count = 0;
  std::uint64_t details = 0;  ///< hash of uneven counts, segment size and names

  bool operator==(const Signature&) const = default;
};

/// One message to send or to receive. The Link borrows it, and the memory it points to, from the moment it is
/// posted until finished() is called or the Link is abandoned. All calls are made by the thread that drives
/// the Link.
class MessageRequest {
 public:
  virtual ~MessageRequest() = default;

  Tag tag;
  const Signature* signature = nullptr;
  std::byte* data = nullptr;  ///< source of a send; destination of a receive that only stores, else null
  std::uint64_t bytes = 0;
  std::uint32_t segments = 1;  ///< number of messages that carry this rank-to-rank transfer
  bool acknowledged = false;   ///< a send that finishes only after the peer has matched it, as MPI_Ssend
  bool is_warm = false;        ///< a send of data that has just come or been summed, and is still in caches

  /// Sends only: the bytes leave now. From here on, if not before, `data` points to them. May be called
  /// again.
  virtual void leaving() {}
  /// Receives only: `size` bytes of the message, from byte `offset` on. Calls come in order and without gaps.
  /// Without `data`, `size` is a multiple of 16 except at the end. `from` is valid only during the call.
  virtual void consume(std::uint64_t offset, const std::byte* from, std::uint64_t size) = 0;
  /// The memory of a send may be overwritten; the data of a receive has been consumed.
  virtual void finished() = 0;
};

}  // namespace kolo::transport

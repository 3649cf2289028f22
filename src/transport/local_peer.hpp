// LocalPeer: a peer on the same host, through memory that both ranks map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/status.hpp"
#include "transport/endpoint.hpp"

namespace kolo::transport {

/// Segments begin at a multiple of this.
inline constexpr std::size_t kSegmentAlignment = 4096;

/// A peer on the same host, as a collective in shared memory uses it. Used by the thread that drives the link
/// to the peer.
///
/// Each rank has a segment: memory that it and all of its local peers map, to read and write. All ranks have
/// asked for the same size (TransportOptions::segment_bytes), and the bytes are zero at first. The program
/// that asked for them decides what they mean and which rank may write where.
class LocalPeer {
 public:
  virtual ~LocalPeer() = default;

  /// This rank's own segment, the same for all of its local peers.
  virtual std::span<std::byte> own_segment() = 0;
  /// The peer's segment.
  virtual std::span<std::byte> segment() = 0;
  /// Wakes a peer that sleeps on `Endpoint::fd()`.
  virtual void ring() = 0;
  /// The name by which the peer can map `data`, if `data` is in memory that kolo gave out; nullopt for any
  /// other memory. Sends the memory's descriptor if the peer does not have it yet.
  virtual std::optional<RemoteRange> share(const void* data, std::size_t bytes) = 0;
  /// The peer's memory in this address space, to read and write. Null if it has not been shared or cannot be
  /// mapped: trouble() then says why.
  virtual std::byte* reach(const RemoteRange& range, std::size_t bytes) = 0;
  virtual const Status& trouble() const = 0;
};

/// Makes the pages that hold `data` private to this process and keeps their contents. Peers that still have
/// the pages mapped no longer see or change them. Does nothing to memory that kolo did not give out.
/// Thread-safe.
void detach_shared_memory(const void* data, std::size_t bytes);

/// Counts regions that are no longer shared. While the count stays the same, all memory that kolo gave out
/// and shared is still shared. Thread-safe.
std::uint64_t shared_memory_losses();

}  // namespace kolo::transport

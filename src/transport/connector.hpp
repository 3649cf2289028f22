// connect_all(): sockets to all peers of a group, proved by Handshake; shared by the transports that use
// sockets.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"
#include "security/handshake.hpp"
#include "transport/transport.hpp"

namespace kolo {

/// How one kind of socket is opened. All descriptors are non-blocking and close on exec.
class SocketKind {
 public:
  virtual ~SocketKind() = default;

  virtual std::string_view name() const = 0;
  virtual std::vector<int> listeners() const = 0;
  /// For messages: where the listeners are.
  virtual std::string listening_at() const = 0;
  /// The ways of reaching a peer with this address, best first; none when it makes no sense.
  virtual std::vector<std::string> candidates(std::string_view address) const = 0;
  /// Begins to connect to a candidate; the connect may still be in progress.
  virtual Result<UniqueFd> dial(const std::string& candidate) const = 0;
  /// Whether a connected socket may go on to the handshake.
  virtual bool admits(int fd) const = 0;
};

/// A socket on whose other side the right rank has proved itself.
struct ProvedSocket {
  UniqueFd fd;
  bool dialed = false;  ///< by us
  std::string secret;   ///< Handshake::secret()
};

/// Dials the peers of lower rank, accepts those of higher rank, with retries until the deadline. All
/// connections make progress at once: one that says nothing, or nonsense, holds nobody up. The sockets come
/// in the order of `peers`; Code::rendezvous names the ranks that are missing, with where they were looked
/// for.
Result<std::vector<ProvedSocket>> connect_all(const SocketKind& kind, const Identity& me,
                                              std::span<const TransportPeer> peers, const Deadline& deadline);

}  // namespace kolo

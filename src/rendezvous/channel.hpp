// Channel: a client's connection to a store: authenticated and, if configured, encrypted.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/deadline.hpp"
#include "base/unique_fd.hpp"
#include "net/credentials.hpp"
#include "net/handshake.hpp"

namespace kolo::rendezvous {

/// The identity of a store's server and its clients in the handshake: all of them are "rank" 0.
net::Identity store_identity(const net::Credentials& credentials);

/// Used by one thread at a time.
class Channel {
 public:
  Channel() = default;
  bool valid() const { return fd_.valid(); }

  /// All of the bytes or an error: Code::timeout at the deadline, Code::peer_lost if the other side is gone.
  Status send(std::string_view bytes, const Deadline& deadline);
  Status receive(std::string& into, const Deadline& deadline);

 private:
  friend struct Greeting;
  Status secure(const Deadline& deadline);
  Status flush(const Deadline& deadline);
  Status hear(const Deadline& deadline);

  UniqueFd fd_;
  std::unique_ptr<net::TlsStream> tls_;
};

/// The result of opening a connection.
struct Greeting {
  Channel channel;       ///< invalid if the attempt failed
  bool refused = false;  ///< it is a store, but one side does not trust the other
  std::string reason;    ///< why there is no channel

  /// `fd` is connected and non-blocking.
  static Greeting exchange(UniqueFd fd, const net::Credentials& credentials, const Deadline& deadline);
};

}  // namespace kolo::rendezvous

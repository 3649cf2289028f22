// Channel: a client's connection to a store, proved and, where wanted, encrypted.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/deadline.hpp"
#include "base/unique_fd.hpp"
#include "security/credentials.hpp"
#include "security/handshake.hpp"

namespace kolo {

/// Who a store's server and its clients say they are; all are "rank" 0 of the meeting.
Identity store_identity(const Credentials& credentials);

/// Used by one thread at a time.
class Channel {
 public:
  Channel() = default;
  bool valid() const { return fd_.valid(); }

  /// Everything or an error: Code::timeout at the deadline, Code::peer_lost when the other side is gone.
  Status send(std::string_view bytes, const Deadline& deadline);
  Status receive(std::string& into, const Deadline& deadline);

 private:
  friend struct Greeting;
  Status secure(const Deadline& deadline);
  Status flush(const Deadline& deadline);
  Status hear(const Deadline& deadline);

  UniqueFd fd_;
  std::unique_ptr<TlsStream> tls_;
};

/// How a connection began.
struct Greeting {
  Channel channel;       ///< invalid where it led to nothing
  bool refused = false;  ///< it is a store, but one side does not trust the other
  std::string reason;    ///< why there is no channel

  /// `fd` is connected and non-blocking.
  static Greeting exchange(UniqueFd fd, const Credentials& credentials, const Deadline& deadline);
};

}  // namespace kolo

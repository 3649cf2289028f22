// Handshake: two sockets authenticate each other before either trusts any other byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace kolo::net {

/// The encryption after the handshake. Both sides must want the same.
enum class Encryption : std::uint8_t {
  none = 0,
  key = 1,           ///< TLS, keyed from the job's key
  certificates = 2,  ///< TLS with given certificates
};

/// The identity of this side.
struct Identity {
  std::string job;  ///< must be the same on both sides
  std::string key;  ///< the job's secret; empty proves only that both speak kolo and mean the same job
  int rank = -1;
  Encryption encryption = Encryption::none;
  std::uint32_t protocol = 0;  ///< version of what follows the handshake; must be the same on both sides
};

/// Four messages of fixed size: hello (dialer), challenge (acceptor), proof (dialer), welcome (acceptor).
/// Hello and challenge carry a random nonce, the ranks, the protocol of each side, and a digest of the job's
/// name. Every message but hello ends in an HMAC-SHA256 with the job's key, over all bytes exchanged so far
/// and the message's own. So no message can be replayed, moved to another connection or sent back to its
/// sender. In place of its next message a side may send a refusal with the reason. A refusal is not
/// authenticated; it only informs the user of the other side.
///
/// A state machine without I/O: bytes in, bytes out. Used by one thread at a time.
class Handshake {
 public:
  /// Length of the longest message.
  static constexpr std::size_t kMostBytes = 160;

  /// The side that connects, to rank `peer`.
  static Handshake dial(const Identity& me, int peer);
  /// The side that accepts a connection, from any peer.
  static Handshake accept(const Identity& me);

  /// Sent by an acceptor to a process of another user, from which it reads nothing, before it closes.
  static std::string refusal_of_user();

  /// Missing bytes of the next message; 0 if none is expected.
  std::size_t wanted() const { return expected_ - incoming_.size(); }
  /// Takes at most wanted() bytes. Fails if the other side is not the expected one. Then the connection is
  /// useless, but take_output() may have a refusal to send before closing it.
  Status feed(std::span<const std::byte> bytes);
  /// What must be sent now: at most one message, empty if none.
  std::string take_output();

  /// True once both sides have authenticated (the last output may still be unsent).
  bool done() const { return done_; }
  /// The other side's rank: claimed until done(), authenticated after it.
  int peer() const { return peer_; }
  /// Whether the other side has sent a valid message yet.
  bool answered() const { return answered_; }
  /// Whether the other side has begun a message of some version of kolo.
  bool began() const { return began_; }
  /// When done(): 32 bytes that only the two sides of this connection know. With an empty key they are no
  /// secret.
  std::string secret() const;

 private:
  enum class Reason : std::uint8_t { unknown = 0, version, protocol, job, key, encryption, rank, user };

  Handshake(const Identity& me, int peer, bool dialer);

  Status on_hello();
  Status on_challenge();
  Status on_confirmation();
  std::string introduction(std::string_view magic);
  std::string_view awaited_magic() const;
  Status check_magic();
  Status check_introduction();
  Status check_proof();
  static std::string refusal(Reason reason, std::size_t bytes);
  /// The error, after putting the reason into the output.
  Status refuse(Reason reason, const std::string& why);
  void say(std::string message, bool signed_message);
  void expect(std::size_t bytes);

  Identity me_;
  int peer_;
  bool dialer_;
  bool done_ = false;
  bool answered_ = false;
  bool began_ = false;
  std::size_t expected_ = 0;
  std::string incoming_, outgoing_, transcript_;
};

}  // namespace kolo::net

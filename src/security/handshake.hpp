// Handshake: two sockets prove to each other who they are before any other byte is believed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace kolo {

/// What comes after the handshake. Both sides must want the same.
enum class Encryption : std::uint8_t {
  none = 0,
  key = 1,           ///< TLS, keyed from the job's key
  certificates = 2,  ///< TLS with given certificates
};

/// Who this side is.
struct Identity {
  std::string job;  ///< must be the same on both sides
  std::string key;  ///< the job's secret; empty proves only that both speak kolo and mean the same job
  int rank = -1;
  Encryption encryption = Encryption::none;
  std::uint32_t protocol = 0;  ///< version of what is spoken afterwards; must be the same on both sides
};

/// Four messages of fixed size: hello (dialer), challenge (acceptor), proof (dialer), welcome (acceptor).
/// Hello and challenge carry a random nonce, the ranks, what each side will speak, and a digest of the job's
/// name; every message but hello ends in an HMAC-SHA256 with the job's key over all bytes exchanged so far
/// and its own, so that nothing can be replayed, moved to another connection or turned back on its sender.
/// In place of its next message a side may send a refusal with the reason: it proves nothing and serves only
/// to tell a person on the other side.
///
/// A state machine without I/O: bytes in, bytes out. Used by one thread at a time.
class Handshake {
 public:
  /// No message is longer.
  static constexpr std::size_t kMostBytes = 160;

  /// The side that connected, and wants rank `peer`.
  static Handshake dial(const Identity& me, int peer);
  /// The side that was connected to, by whoever it may be.
  static Handshake accept(const Identity& me);

  /// What an acceptor sends to a process of another user, from which it takes nothing, before it closes.
  static std::string refusal_of_user();

  /// Bytes that are missing from the message that must come next; 0 when none must come.
  std::size_t wanted() const { return expected_ - incoming_.size(); }
  /// Takes at most wanted() bytes. Fails when the other side is not who it must be; then the connection is
  /// worth nothing, but take_output() may have a refusal to be sent before it is closed.
  Status feed(std::span<const std::byte> bytes);
  /// What must be sent now; at most one message, empty when nothing.
  std::string take_output();

  /// True when both sides have proved themselves (the last output may still be unsent).
  bool done() const { return done_; }
  /// The other side's rank: as claimed until done(), proved after.
  int peer() const { return peer_; }
  /// Whether the other side has said anything sensible yet.
  bool answered() const { return answered_; }
  /// Whether the other side has begun a message of some version of kolo.
  bool began() const { return began_; }
  /// When done(): 32 bytes that only the two sides of this very connection know (nobody, with an empty key).
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

}  // namespace kolo

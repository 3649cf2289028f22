// Session: the server's side of one connection to a store, without the socket.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.hpp"
#include "net/credentials.hpp"
#include "net/handshake.hpp"
#include "rendezvous/table.hpp"
#include "rendezvous/wire.hpp"

namespace kolo::rendezvous {

/// Runs the handshake, then encryption if both sides agreed on it, then one request after another. A stranger
/// may send any bytes: the memory that a Session holds stays bounded. Not thread-safe.
class Session {
 public:
  using TimePoint = Clock::time_point;

  Session(const net::Credentials& credentials, TimePoint now);

  /// Takes bytes in. False if there are more than any honest client sends, or TLS cannot decrypt them: then
  /// send output() and drop the connection.
  bool receive(std::string_view bytes);
  /// Answers what can be answered now. False if the other side broke the rules: then send output() and drop
  /// the connection. Sets `changed` if the table has changed, because waiting sessions may be ready then.
  bool advance(Table& table, TimePoint now, bool& changed);

  /// Bytes to send; the caller removes what it has sent.
  std::string& output() { return output_; }
  bool trusted() const { return trusted_; }
  /// Why a client of kolo was refused; empty if it was not, or if it is no client of kolo.
  const std::string& trouble() const { return trouble_; }
  bool waiting() const { return waiting_; }
  /// The time at which advance() must be called at the latest: the end of a wait, or of the time to
  /// authenticate.
  TimePoint wake() const { return wake_; }

 private:
  bool hear_proof(TimePoint now);
  bool hear_request(Table& table, TimePoint now, bool& changed, bool& acted);
  void serve(Table& table, TimePoint now, bool& changed);
  bool settle(const Table& table, TimePoint now);
  bool decrypt(std::string_view bytes);
  void reply(wire::Message message);

  std::shared_ptr<const net::Tls> tls_settings_;
  net::Handshake handshake_;
  std::unique_ptr<net::TlsStream> tls_;
  std::string trouble_;
  bool trusted_ = false;
  bool waiting_ = false;
  std::string input_;
  std::string output_;
  wire::Message request_;             ///< the request being served
  std::vector<std::string> awaited_;  ///< its keys not yet seen; each change looks up only the last one
  TimePoint wake_;
};

}  // namespace kolo::rendezvous

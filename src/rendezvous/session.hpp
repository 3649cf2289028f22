// Session: what a store's server knows and says on one connection, without the socket.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.hpp"
#include "rendezvous/table.hpp"
#include "rendezvous/wire.hpp"
#include "security/credentials.hpp"
#include "security/handshake.hpp"

namespace kolo {

/// First the handshake, then, where it was agreed on, encryption, then one request after the other. Fed with
/// whatever bytes a stranger may send; what it holds stays bounded. Not thread-safe.
class Session {
 public:
  using TimePoint = Clock::time_point;

  Session(const Credentials& credentials, TimePoint now);

  /// Takes bytes in; false when there are more than any honest client sends, or TLS makes nothing of them:
  /// send output() and drop the connection.
  bool receive(std::string_view bytes);
  /// Answers what can be answered by now. False: the other side broke the rules; send output() and drop the
  /// connection. Sets `changed` when the table has changed, so that waiting sessions may have become ready.
  bool advance(Table& table, TimePoint now, bool& changed);

  /// Bytes to send; the caller removes what it has sent.
  std::string& output() { return output_; }
  bool trusted() const { return trusted_; }
  /// Why a client of kolo was not let in; empty: it was, or it is none.
  const std::string& trouble() const { return trouble_; }
  bool waiting() const { return waiting_; }
  /// When advance() must be called at the latest: the end of a wait, or of a stranger's patience.
  TimePoint wake() const { return wake_; }

 private:
  bool hear_proof(TimePoint now);
  bool hear_request(Table& table, TimePoint now, bool& changed, bool& acted);
  void serve(Table& table, TimePoint now, bool& changed);
  bool settle(const Table& table, TimePoint now);
  bool decrypt(std::string_view bytes);
  void reply(wire::Message message);

  std::shared_ptr<const Tls> tls_settings_;
  Handshake handshake_;
  std::unique_ptr<TlsStream> tls_;
  std::string trouble_;
  bool trusted_ = false;
  bool waiting_ = false;
  std::string input_;
  std::string output_;
  wire::Message request_;             ///< the one being served
  std::vector<std::string> awaited_;  ///< its keys not yet seen; only the last is looked up on each change
  TimePoint wake_;
};

}  // namespace kolo

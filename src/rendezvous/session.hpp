// Session: what a store's server knows and says on one connection, without the socket.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.hpp"
#include "rendezvous/proof.hpp"
#include "rendezvous/table.hpp"
#include "rendezvous/wire.hpp"

namespace kolo {

/// First the proof, then one request after the other. Fed with whatever bytes a stranger may send; what it
/// holds stays bounded. Not thread-safe.
class Session {
 public:
  using TimePoint = Clock::time_point;

  Session(const std::string& key, TimePoint now);

  /// Takes bytes in; false when there are more than any honest client sends: drop the connection.
  bool receive(std::string_view bytes);
  /// Answers what can be answered by now. False: the other side broke the rules; send output() and drop the
  /// connection. Sets `changed` when the table has changed, so that waiting sessions may have become ready.
  bool advance(Table& table, TimePoint now, bool& changed);

  /// Bytes to send; the caller removes what it has sent.
  std::string& output() { return output_; }
  bool trusted() const { return trusted_; }
  bool waiting() const { return waiting_; }
  /// When advance() must be called at the latest: the end of a wait, or of a stranger's patience.
  TimePoint wake() const { return wake_; }

 private:
  bool hear_proof(TimePoint now);
  bool hear_request(Table& table, TimePoint now, bool& changed, bool& acted);
  void serve(Table& table, TimePoint now, bool& changed);
  bool settle(const Table& table, TimePoint now);
  void reply(wire::Message message) { output_ += wire::encode(message); }

  proof::ServerProof proof_;
  bool trusted_ = false;
  bool waiting_ = false;
  std::string input_;
  std::string output_;
  wire::Message request_;             ///< the one being served
  std::vector<std::string> awaited_;  ///< its keys not yet seen; only the last is looked up on each change
  TimePoint wake_;
};

}  // namespace kolo

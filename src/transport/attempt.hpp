// Attempt: one socket on its way through the handshake.
#pragma once

#include <string>

#include "base/deadline.hpp"
#include "base/unique_fd.hpp"
#include "net/handshake.hpp"

namespace kolo::transport {

/// A non-blocking socket, dialled or accepted, until both sides have authenticated. Used by one thread.
class Attempt {
 public:
  /// `connecting`: the connect may still be in progress. If not, what is to be sent first is sent at once.
  Attempt(UniqueFd fd, net::Handshake handshake, bool connecting);

  int fd() const { return fd_.get(); }
  const net::Handshake& handshake() const { return handshake_; }
  bool connecting() const { return connecting_; }
  /// No process listens at the dialled address.
  bool is_refused() const { return refused_; }
  /// The other side closed the connection before the handshake ended.
  bool is_closed() const { return closed_; }

  /// Moves on as far as it can without waiting. Returns early once it has learned which rank the other side
  /// claims to be, so that the caller can decide.
  void advance();
  /// Both sides have authenticated, and the other side has been told.
  bool ready() const { return failure_.empty() && handshake_.done() && unsent_.empty(); }
  /// Why the attempt failed; empty while it may still succeed.
  const std::string& failure() const { return failure_; }
  void fail(std::string why) { failure_ = std::move(why); }
  /// It waits for room to write (or for the connect to end); otherwise for something to read.
  bool wants_write() const { return connecting_ || !unsent_.empty(); }
  /// The connected socket of a ready attempt.
  UniqueFd take() { return std::move(fd_); }

  Clock::time_point expires = Clock::time_point::max();
  bool is_watched_for_room = false;  ///< as last told to the epoll

 private:
  void flush();

  UniqueFd fd_;
  net::Handshake handshake_;
  bool connecting_;
  bool refused_ = false;
  bool closed_ = false;
  std::string unsent_;
  std::string failure_;
};

}  // namespace kolo::transport

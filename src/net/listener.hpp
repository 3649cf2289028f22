// Listener: takes connections at listening sockets; strangers cannot use up its process.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace kolo::net {

/// A stranger is a connection that has not authenticated. Too many strangers, or no descriptors left: the
/// oldest strangers are dropped. Neither descriptors nor strangers left, or too many connections at once: the
/// rest wait in the system's queue for a tenth of a second. Used by one thread at a time.
class Listener {
 public:
  /// The connections' owner.
  class Owner {
   public:
    /// Whether the process at the other end may go on to the handshake. Called before any byte is read.
    virtual Status admit(int /*fd*/) const { return {}; }
    /// `fd` is non-blocking.
    virtual void accepted(UniqueFd fd) = 0;
    virtual std::size_t strangers() const = 0;
    virtual std::size_t most_strangers() const { return 256; }
    /// Closes that many, the oldest first. There are at least as many.
    virtual void drop_strangers(std::size_t count) = 0;

   protected:
    ~Owner() = default;
  };

  /// `name`: for log messages, "the store". `most_at_once`: connections in a tenth of a second.
  Listener(std::string name, std::vector<UniqueFd> sockets, int most_at_once = 1000);
  Listener(std::string name, UniqueFd socket, int most_at_once = 1000);
  /// Not ok if the system refused what every connection needs.
  const Status& status() const { return status_; }

  /// Polls readable when accept() has something to do. Also call accept() at next_time().
  int fd() const { return epoll_.get(); }
  Clock::time_point next_time() const { return resume_at_; }
  void accept(Owner& owner);

  /// Logs that a connection was refused: the first few as warnings, if it `may_be_rank`.
  void report(int fd, const std::string& why, bool may_be_rank);
  /// Why the last accept failed; empty if none has.
  const std::string& trouble() const { return trouble_; }

 private:
  bool accept_one(int socket, Owner& owner);
  void watch(int operation, bool wanted);
  void pause();

  std::string name_;
  std::vector<UniqueFd> sockets_;
  UniqueFd epoll_;
  int most_at_once_;
  int taken_ = 0;  ///< since window_began_
  Clock::time_point window_began_{};
  Clock::time_point resume_at_ = Clock::time_point::max();
  Status status_;
  std::string trouble_;
  int warnings_ = 0;
};

}  // namespace kolo::net

#include "transport/connector.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <list>

#include "base/log.hpp"
#include "transport/missing.hpp"

namespace kolo {
namespace {

using std::chrono::milliseconds;
using TimePoint = Clock::time_point;

constexpr milliseconds kFirstPause{10};  ///< between two dials of one peer; doubles
constexpr milliseconds kLongestPause{250};
constexpr milliseconds kAnswerTime{3000};     ///< for one of several candidates to say something
constexpr milliseconds kStrangerTime{10000};  ///< for somebody that was accepted to prove itself
constexpr milliseconds kAcceptPause{100};     ///< when the system has no descriptors left
constexpr int kMostWarnings = 5;
constexpr std::size_t kMostStrangers = 256;  ///< accepted and not yet proved, beyond the ranks expected

std::string error_text(int error) {
  return std::strerror(error);
}

/// One socket on its way through the handshake.
struct Attempt {
  UniqueFd fd;
  Handshake handshake;
  TimePoint expires;
  bool connecting = false;
  std::string unsent;
  std::string failure;

  bool ready() const { return failure.empty() && handshake.done() && unsent.empty(); }
  short events() const { return connecting || !unsent.empty() ? POLLOUT : POLLIN; }
  void advance();

 private:
  void flush();
};

void Attempt::advance() {
  if (connecting) {
    int error = 0;
    socklen_t length = sizeof error;
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
    if (error != 0) {
      failure = error_text(error);
      return;
    }
    connecting = false;
  }
  flush();
  while (failure.empty() && unsent.empty() && handshake.wanted() > 0) {
    std::byte buffer[256];
    const ssize_t got = ::recv(fd.get(), buffer, std::min(sizeof buffer, handshake.wanted()), MSG_DONTWAIT);
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) failure = error_text(errno);
      return;
    }
    if (got == 0) {
      failure = "closed by the other side during the handshake";
      return;
    }
    if (Status status = handshake.feed(std::span(buffer).first(static_cast<std::size_t>(got)));
        !status.ok()) {
      unsent = handshake.take_output();  // why, for the other side; no harm is done where it gets lost
      flush();
      failure = status.message();
      return;
    }
    unsent += handshake.take_output();
    flush();
  }
}

void Attempt::flush() {
  while (!unsent.empty()) {
    const ssize_t sent = ::send(fd.get(), unsent.data(), unsent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOTCONN) failure = error_text(errno);
      return;
    }
    unsent.erase(0, static_cast<std::size_t>(sent));
  }
}

/// A rank that must be connected.
struct Wanted {
  TransportPeer peer;
  bool dialed = false;  ///< by us
  std::vector<std::string> candidates;
  std::size_t next = 0;  ///< candidate
  TimePoint retry_at{};
  milliseconds pause = kFirstPause;
  std::unique_ptr<Attempt> attempt;
  std::string known;  ///< what the last attempt ran into
  UniqueFd fd;
  std::string secret;
};

class Meeting {
 public:
  Meeting(const SocketKind& kind, const Identity& me, std::span<const TransportPeer> peers,
          const Deadline& deadline);
  Result<std::vector<ProvedSocket>> run();

 private:
  bool complete() const;
  bool expects_others() const;
  Status start();
  void dial(Wanted& wanted);
  void after_dial(Wanted& wanted);
  void accept_from(int listener);
  void take(Attempt& attempt);
  void drop_silent(TimePoint now);
  Status wait();
  Status missing() const;

  const SocketKind& kind_;
  const Identity& me_;
  const Deadline& deadline_;
  std::vector<Wanted> wanted_;
  std::list<Attempt> strangers_;  // oldest first
  TimePoint listen_at_{};
  int warnings_ = 0;
};

Meeting::Meeting(const SocketKind& kind, const Identity& me, std::span<const TransportPeer> peers,
                 const Deadline& deadline)
    : kind_(kind), me_(me), deadline_(deadline) {
  for (const TransportPeer& peer : peers) {
    Wanted wanted;
    wanted.peer = peer;
    wanted.dialed = peer.rank < me.rank;
    if (wanted.dialed) wanted.candidates = kind.candidates(peer.address);
    wanted_.push_back(std::move(wanted));
  }
}

Result<std::vector<ProvedSocket>> Meeting::run() {
  if (Status status = start(); !status.ok()) return status;
  while (!complete()) {
    if (deadline_.passed()) return missing();
    const auto now = Clock::now();
    for (Wanted& wanted : wanted_) {
      if (wanted.dialed && !wanted.fd.valid() && !wanted.attempt && now >= wanted.retry_at) dial(wanted);
    }
    if (complete()) break;
    if (Status status = wait(); !status.ok()) return status;
    drop_silent(Clock::now());
  }
  std::vector<ProvedSocket> sockets;
  for (Wanted& wanted : wanted_) {
    sockets.push_back({std::move(wanted.fd), wanted.dialed, std::move(wanted.secret)});
  }
  return sockets;
}

Status Meeting::start() {
  for (const Wanted& wanted : wanted_) {
    if (wanted.peer.rank == me_.rank || wanted.peer.rank < 0) {
      return Status(Code::invalid_argument, std::string(kind_.name()) + ": rank " +
                                                std::to_string(wanted.peer.rank) + " is no other rank");
    }
    if (wanted.dialed && wanted.candidates.empty()) {
      return ranks_missing(kind_.name(), me_.rank,
                           {{wanted.peer.rank, "its address \"" + wanted.peer.address + "\" leads nowhere"}});
    }
  }
  return Status();
}

bool Meeting::complete() const {
  return std::all_of(wanted_.begin(), wanted_.end(), [](const Wanted& w) { return w.fd.valid(); });
}

bool Meeting::expects_others() const {
  return std::any_of(wanted_.begin(), wanted_.end(),
                     [](const Wanted& w) { return !w.dialed && !w.fd.valid(); });
}

void Meeting::dial(Wanted& wanted) {
  const std::string& candidate = wanted.candidates[wanted.next];
  auto fd = kind_.dial(candidate);
  if (!fd.ok()) {
    wanted.known = "dialled " + candidate + ": " + fd.status().message();
    wanted.next = (wanted.next + 1) % wanted.candidates.size();
    wanted.retry_at = Clock::now() + wanted.pause;
    wanted.pause = std::min(2 * wanted.pause, kLongestPause);
    return;
  }
  wanted.attempt.reset(
      new Attempt{std::move(*fd), Handshake::dial(me_, wanted.peer.rank), TimePoint::max(), true, {}, {}});
  // With one candidate there is nothing better to do than to wait for its answer.
  if (wanted.candidates.size() > 1) wanted.attempt->expires = Clock::now() + kAnswerTime;
  wanted.attempt->unsent = wanted.attempt->handshake.take_output();
  wanted.known = "dialled " + candidate + ", no answer yet";
}

void Meeting::after_dial(Wanted& wanted) {
  Attempt& attempt = *wanted.attempt;
  if (attempt.failure.empty() && !attempt.connecting && !kind_.admits(attempt.fd.get())) {
    attempt.failure = "another user's";
  }
  if (attempt.handshake.answered()) attempt.expires = TimePoint::max();
  if (attempt.ready()) {
    wanted.secret = attempt.handshake.secret();
    wanted.fd = std::move(attempt.fd);
    wanted.attempt.reset();
    return;
  }
  if (attempt.failure.empty()) return;
  wanted.known = "dialled " + wanted.candidates[wanted.next] + ": " + attempt.failure;
  wanted.attempt.reset();
  wanted.next = (wanted.next + 1) % wanted.candidates.size();
  wanted.retry_at = Clock::now() + wanted.pause;
  wanted.pause = std::min(2 * wanted.pause, kLongestPause);
}

void Meeting::accept_from(int listener) {
  for (int i = 0; i < 64; ++i) {  // then look after the others
    UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) {
      const bool nobody = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ECONNABORTED;
      if (!nobody && !strangers_.empty()) {  // no descriptors: the next may be the one we wait for
        strangers_.pop_front();
        continue;
      }
      if (!nobody) listen_at_ = Clock::now() + kAcceptPause;
      return;
    }
    if (!kind_.admits(fd.get())) {
      log().debug("{}: another user's process came to {}", kind_.name(), kind_.listening_at());
      continue;
    }
    if (strangers_.size() >= kMostStrangers + wanted_.size()) strangers_.pop_front();
    strangers_.push_back(
        Attempt{std::move(fd), Handshake::accept(me_), Clock::now() + kStrangerTime, false, {}, {}});
  }
}

void Meeting::take(Attempt& attempt) {
  const int rank = attempt.handshake.peer();
  for (Wanted& wanted : wanted_) {
    // A second connection of the same rank means that it has given up the first.
    if (wanted.dialed || wanted.peer.rank != rank) continue;
    wanted.secret = attempt.handshake.secret();
    wanted.fd = std::move(attempt.fd);
  }
}

void Meeting::drop_silent(TimePoint now) {
  for (auto stranger = strangers_.begin(); stranger != strangers_.end();) {
    if (stranger->ready()) take(*stranger);
    if (stranger->failure.empty() && now >= stranger->expires) stranger->failure = "said nothing";
    if (!stranger->failure.empty()) {
      // A rank with a wrong key looks like any stranger: people should hear of it before the deadline.
      const bool tell = stranger->handshake.began() && warnings_ < kMostWarnings;
      if (tell) ++warnings_;
      log().log(tell ? spdlog::level::warn : spdlog::level::debug, "{}: dropped a connection to {}: {}",
                kind_.name(), kind_.listening_at(), stranger->failure);
      const int rank = stranger->handshake.peer();
      for (Wanted& wanted : wanted_) {
        if (!wanted.dialed && wanted.peer.rank == rank)
          wanted.known = "somebody came in its name: " + stranger->failure;
      }
    }
    const bool over = stranger->ready() || !stranger->failure.empty();
    stranger = over ? strangers_.erase(stranger) : std::next(stranger);
  }
  for (Wanted& wanted : wanted_) {
    if (wanted.attempt && now >= wanted.attempt->expires) {
      wanted.attempt->failure = "no answer";
      after_dial(wanted);
    }
  }
}

Status Meeting::wait() {
  std::vector<pollfd> entries;
  auto until = Clock::now() + milliseconds(500);
  const std::vector<int> listeners = kind_.listeners();
  if (expects_others()) {
    const bool paused = Clock::now() < listen_at_;
    if (paused) until = std::min(until, listen_at_);
    for (const int listener : listeners) {
      if (!paused) entries.push_back({listener, POLLIN, 0});
    }
  }
  const std::size_t listening = entries.size();
  for (const Attempt& stranger : strangers_) {
    entries.push_back({stranger.fd.get(), stranger.events(), 0});
    until = std::min(until, stranger.expires);
  }
  for (const Wanted& wanted : wanted_) {
    if (wanted.attempt) {
      entries.push_back({wanted.attempt->fd.get(), wanted.attempt->events(), 0});
      until = std::min(until, wanted.attempt->expires);
    } else if (wanted.dialed && !wanted.fd.valid()) {
      until = std::min(until, wanted.retry_at);
    }
  }
  const auto left = std::max(std::chrono::nanoseconds(0), std::chrono::nanoseconds(until - Clock::now()));
  const int ms =
      std::min(deadline_.left_ms(), static_cast<int>(std::chrono::ceil<milliseconds>(left).count()));
  if (::poll(entries.data(), entries.size(), ms) < 0 && errno != EINTR)
    return Status::from_errno("poll", errno);

  std::size_t at = listening;
  for (Attempt& stranger : strangers_) {
    if (entries[at++].revents != 0) stranger.advance();
  }
  for (Wanted& wanted : wanted_) {
    if (!wanted.attempt) continue;
    if (entries[at++].revents == 0) continue;
    wanted.attempt->advance();
    after_dial(wanted);
  }
  for (std::size_t i = 0; i < listening; ++i) {
    if (entries[i].revents != 0) accept_from(entries[i].fd);
  }
  return Status();
}

Status Meeting::missing() const {
  std::map<int, std::string> missing;
  for (const Wanted& wanted : wanted_) {
    if (wanted.fd.valid()) continue;
    missing[wanted.peer.rank] =
        !wanted.known.empty() ? wanted.known : "it has not dialled " + kind_.listening_at();
  }
  return ranks_missing(kind_.name(), me_.rank, missing);
}

}  // namespace

Result<std::vector<ProvedSocket>> connect_all(const SocketKind& kind, const Identity& me,
                                              std::span<const TransportPeer> peers,
                                              const Deadline& deadline) {
  return Meeting(kind, me, peers, deadline).run();
}

}  // namespace kolo

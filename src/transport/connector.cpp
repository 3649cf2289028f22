#include "transport/connector.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace kolo::transport {
namespace {

using std::chrono::milliseconds;
using TimePoint = Clock::time_point;

constexpr milliseconds kFirstPause{10};  // between two dials of one peer; doubles
constexpr milliseconds kLongestPause{250};
constexpr milliseconds kAnswerTime{3000};     // for one of several candidate addresses to answer
constexpr milliseconds kStrangerTime{10000};  // for an accepted socket to authenticate
constexpr int kEventsAtOnce = 64;

}  // namespace

Status connect_failure(int error) {
  return Status(error == ECONNREFUSED ? Code::peer_lost : Code::system, std::strerror(error));
}

Connector::Connector(SocketKind& kind, net::Identity me, std::span<const TransportPeer> peers)
    : kind_(kind),
      me_(std::move(me)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      status_(kind.listener().status()) {
  if (!epoll_.valid()) Status::from_errno("cannot create an epoll", errno).throw_if_error();
  for (const TransportPeer& peer : peers) {
    Wanted& wanted = wanted_[peer.rank];
    wanted.peer = peer;
    wanted.candidates = kind.candidates(peer.address);
  }
  control(EPOLL_CTL_ADD, kind.listener().fd(), EPOLLIN);
}

Connector::Wanted* Connector::find(int rank) {
  const auto found = wanted_.find(rank);
  return found == wanted_.end() ? nullptr : &found->second;
}

void Connector::control(int operation, int fd, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  if (::epoll_ctl(epoll_.get(), operation, fd, &event) != 0 && status_.ok())
    status_ = Status::from_errno("epoll_ctl", errno);
}

void Connector::watch(Attempt& attempt, bool is_new) {
  const bool for_room = attempt.wants_write();
  if (!is_new && attempt.is_watched_for_room == for_room) return;
  attempt.is_watched_for_room = for_room;
  control(is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, attempt.fd(), for_room ? EPOLLOUT : EPOLLIN);
}

std::string Connector::secret_of(const Attempt& attempt) const {
  return me_.encryption == net::Encryption::none ? std::string() : attempt.handshake().secret();
}

/// Call before an attempt is closed or taken. Otherwise a forked child that holds the socket open would keep
/// it in this epoll set, ready for ever.
void Connector::unwatch(const Attempt& attempt) {
  if (attempt.fd() >= 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, attempt.fd(), nullptr);
}

void Connector::end_attempt(Wanted& wanted) {
  if (wanted.attempt) unwatch(*wanted.attempt);
  wanted.attempt.reset();
}

void Connector::accepted(UniqueFd fd) {
  strangers_.emplace_back(std::move(fd), net::Handshake::accept(me_), false);
  strangers_.back().expires = Clock::now() + kStrangerTime;
  watch(strangers_.back(), true);
}

void Connector::drop_strangers(std::size_t count) {
  for (; count > 0; --count) {
    unwatch(strangers_.front());
    strangers_.pop_front();
  }
}

void Connector::dial(int rank) {
  Wanted* wanted = find(rank);
  if (wanted == nullptr || wanted->dials) return;
  wanted->dials = true;
  wanted->pause = kFirstPause;
  wanted->refusals = 0;
  wanted->unreachable_since = {};
  begin(*wanted);
}

void Connector::begin(Wanted& wanted) {
  if (wanted.candidates.empty()) return;
  const std::string& candidate = wanted.candidates[wanted.next];
  if (kind_.has_ended(wanted.peer.address)) {
    wanted.refusals = wanted.candidates.size();
    count_refusal(wanted);
    return give_up(wanted, "its process has closed it");
  }
  auto fd = kind_.dial(candidate);
  if (!fd.ok()) {
    if (fd.status().code() == Code::peer_lost) count_refusal(wanted);
    return give_up(wanted, fd.status().message());
  }
  wanted.attempt = std::make_unique<Attempt>(std::move(*fd), net::Handshake::dial(me_, wanted.peer.rank),
                                             !kind_.connects_at_once());
  // With one candidate there is nothing better to do than wait for its answer.
  if (wanted.candidates.size() > 1) wanted.attempt->expires = Clock::now() + kAnswerTime;
  wanted.known = "dialled " + candidate + ", no answer yet";
  watch(*wanted.attempt, true);
}

void Connector::give_up(Wanted& wanted, const std::string& why) {
  wanted.known = "dialled " + wanted.candidates[wanted.next] + ": " + why;
  end_attempt(wanted);
  ++wanted.failed_attempts;
  wanted.next = (wanted.next + 1) % wanted.candidates.size();
  wanted.retry_at = Clock::now() + wanted.pause;
  wanted.pause = std::min(2 * wanted.pause, kLongestPause);
}

void Connector::count_refusal(Wanted& wanted) {
  ++wanted.refusals;
  if (wanted.unreachable_since == TimePoint{}) wanted.unreachable_since = Clock::now();
}

void Connector::advance_dialled(Wanted& wanted, std::vector<Authenticated>& done) {
  Attempt& attempt = *wanted.attempt;
  const bool was_connecting = attempt.connecting();
  attempt.advance();
  if (!was_connecting || !attempt.connecting()) {
    wanted.refusals = 0;
    wanted.unreachable_since = {};
  } else if (attempt.is_refused()) {
    count_refusal(wanted);
  }
  if (attempt.failure().empty() && attempt.handshake().answered()) {
    if (Status admitted = kind_.admit(attempt.fd()); !admitted.ok()) attempt.fail(admitted.message());
    attempt.expires = TimePoint::max();
  }
  if (!attempt.failure().empty()) return give_up(wanted, attempt.failure());
  if (!attempt.ready()) return watch(attempt, false);
  unwatch(attempt);
  done.push_back({wanted.peer.rank, {attempt.take(), true, secret_of(attempt)}});
  wanted.attempt.reset();
  wanted.dials = false;
  wanted.connected = true;
}

/// If both ranks dial, the higher rank's connection is kept. The lower one's is dropped before its handshake
/// ends.
bool Connector::is_turned_away(int claimed) const {
  const auto found = wanted_.find(claimed);
  return found != wanted_.end() && found->second.attempt && claimed < me_.rank;
}

void Connector::advance_stranger(Attempt& stranger, std::vector<Authenticated>& done) {
  if (is_turned_away(stranger.handshake().peer())) {
    stranger.fail("we have dialled it ourselves");
  } else {
    stranger.advance();
  }
  const int rank = stranger.handshake().peer();
  Wanted* wanted = find(rank);
  if (stranger.ready()) {
    unwatch(stranger);
    AuthenticatedSocket socket{stranger.take(), false, secret_of(stranger)};
    if (wanted == nullptr) return;
    end_attempt(*wanted);
    wanted->dials = false;
    wanted->connected = true;
    done.push_back({rank, std::move(socket)});
    return;
  }
  if (stranger.failure().empty()) return watch(stranger, false);
  // The lower of two ranks that dial each other closes its connection when it has the higher one's.
  const bool is_given_up = stranger.is_closed() && wanted != nullptr && wanted->connected && rank < me_.rank;
  // A rank with a wrong key looks like any stranger: a warning tells its users before the deadline.
  kind_.listener().report(stranger.fd(), stranger.failure(),
                          stranger.handshake().began() && !is_turned_away(rank) && !is_given_up);
  if (wanted != nullptr && !wanted->dials) {
    wanted->known = "another process came in its name: " + stranger.failure();
  }
}

std::vector<Connector::Authenticated> Connector::advance() {
  std::vector<Authenticated> done;
  const auto now = Clock::now();
  epoll_event events[kEventsAtOnce];
  const int count = ::epoll_wait(epoll_.get(), events, kEventsAtOnce, 0);
  if (count < 0 && errno != EINTR && status_.ok()) status_ = Status::from_errno("epoll_wait", errno);
  int ready[kEventsAtOnce];
  std::transform(events, events + std::max(count, 0), ready, [](const auto& e) { return e.data.fd; });
  const std::span due(ready, static_cast<std::size_t>(std::max(count, 0)));
  std::ranges::sort(due);
  const auto is_due = [&](int fd) { return std::ranges::binary_search(due, fd); };
  for (auto stranger = strangers_.begin(); stranger != strangers_.end();) {
    if (is_due(stranger->fd())) advance_stranger(*stranger, done);
    const bool over = stranger->fd() < 0 || !stranger->failure().empty() || now >= stranger->expires;
    if (over) unwatch(*stranger);
    stranger = over ? strangers_.erase(stranger) : std::next(stranger);
  }
  for (auto& [rank, wanted] : wanted_) {
    if (wanted.attempt) {
      if (is_due(wanted.attempt->fd())) advance_dialled(wanted, done);
      if (wanted.attempt && now >= wanted.attempt->expires) give_up(wanted, "no answer");
    }
    if (wanted.dials && !wanted.attempt && now >= wanted.retry_at) begin(wanted);
  }
  net::Listener& listener = kind_.listener();
  if (is_due(listener.fd()) || now >= listener.next_time()) listener.accept(*this);
  return done;
}

TimePoint Connector::next_time() const {
  TimePoint next = kind_.listener().next_time();
  for (const Attempt& stranger : strangers_) next = std::min(next, stranger.expires);
  for (const auto& [rank, wanted] : wanted_) {
    if (wanted.attempt) next = std::min(next, wanted.attempt->expires);
    if (wanted.dials && !wanted.attempt && !wanted.candidates.empty()) next = std::min(next, wanted.retry_at);
  }
  return next;
}

std::string Connector::known(int rank) const {
  const auto found = wanted_.find(rank);
  if (found == wanted_.end()) return "it is no peer";
  if (found->second.candidates.empty())
    return "its address \"" + found->second.peer.address + "\" leads nowhere";
  const bool has_dialled = !found->second.known.empty();
  std::string text = has_dialled ? found->second.known : "it has not dialled " + kind_.listening_at();
  const std::string& trouble = kind_.listener().trouble();
  if (!trouble.empty()) text += "; accept failed here: " + trouble;
  return status_.ok() ? text : text + "; " + status_.message();
}

std::uint64_t Connector::failed_attempts(int rank) const {
  const auto found = wanted_.find(rank);
  return found == wanted_.end() ? 0 : found->second.failed_attempts;
}

std::string Connector::why_lost(int rank) const {
  const auto found = wanted_.find(rank);
  if (!status_.ok() || found == wanted_.end() || found->second.candidates.empty()) return known(rank);
  return found->second.attempt ? kind_.why_lost(found->second.attempt->fd()) : std::string();
}

std::chrono::nanoseconds Connector::unreachable_for(int rank) const {
  const auto found = wanted_.find(rank);
  if (found == wanted_.end()) return {};
  const Wanted& wanted = found->second;
  // One refused candidate says nothing about those that were not tried yet, or have not answered.
  if (wanted.refusals == 0 || wanted.refusals < wanted.candidates.size()) return {};
  return Clock::now() - wanted.unreachable_since;
}

}  // namespace kolo::transport

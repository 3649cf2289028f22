#include "rendezvous/tcp_server.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "base/config.hpp"
#include "base/log.hpp"
#include "base/service_thread.hpp"
#include "net/handshake.hpp"
#include "net/socket.hpp"
#include "rendezvous/session.hpp"

namespace kolo {
namespace {

/// Limit of connections that have not authenticated. Beyond it, the one with the least time left is dropped.
constexpr std::size_t kMaxStrangers = 256;
constexpr int kMaxWarnings = 5;

class Server final : public TcpStoreServer {
 public:
  Server(UniqueFd listener, Credentials credentials)
      : listener_(std::move(listener)), credentials_(std::move(credentials)) {}

  ~Server() override {
    if (!thread_.is_here()) return;
    const std::uint64_t one = 1;
    while (::write(stop_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
    }
    thread_.join();
  }

  Status start() {
    port_ = local_port(listener_.get());
    epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
    stop_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!epoll_.valid() || !stop_.valid()) return Status::from_errno("epoll or eventfd", errno);
    watch(EPOLL_CTL_ADD, listener_.get(), EPOLLIN);
    watch(EPOLL_CTL_ADD, stop_.get(), EPOLLIN);
    thread_ = ServiceThread([this] { run(); });
    return {};
  }

  std::uint16_t port() const override { return port_; }

 private:
  struct Connection {
    UniqueFd fd;
    Session session;
    bool blocked = false;  ///< has output that the socket did not take
  };
  using Connections = std::unordered_map<int, Connection>;

  void watch(int operation, int fd, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    ::epoll_ctl(epoll_.get(), operation, fd, &event);
  }

  void run() {
    std::array<epoll_event, 64> events;
    for (;;) {
      const int ready =
          ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), sleep_ms());
      bool changed = false;
      for (int i = 0; i < ready; ++i) {
        const int fd = events[static_cast<std::size_t>(i)].data.fd;
        if (fd == stop_.get()) return;
        if (fd == listener_.get()) {
          accept_all();
        } else if (auto at = connections_.find(fd); at != connections_.end()) {
          if (!hear(at->second, events[static_cast<std::size_t>(i)].events, changed)) connections_.erase(at);
        }
      }
      look_around(changed);
    }
  }

  /// Until the next session's wake(), or until the time to accept again.
  int sleep_ms() const {
    auto next = resume_accept_;
    for (const auto& [fd, connection] : connections_) next = std::min(next, connection.session.wake());
    if (next == Session::TimePoint::max()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
    return static_cast<int>(std::clamp<decltype(left)>(left, 0, 60'000));
  }

  void accept_all() {
    for (;;) {
      UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!fd.valid()) {
        const int error = errno;
        if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
          if (drop_stranger(1)) continue;
          // No descriptors, and all connections are authenticated: leave callers in the queue for a moment
          // instead of spinning on them.
          watch(EPOLL_CTL_MOD, listener_.get(), 0);
          if (!std::exchange(has_told_of_descriptors_, true)) {
            log().warn("the store cannot take more than {} connections: {} (ulimit -n)", connections_.size(),
                       std::strerror(error));
          }
          resume_accept_ = Clock::now() + std::chrono::milliseconds(100);
          return;
        }
        if (would_block(error)) return;
        continue;  // this caller has gone again; the next one may be there
      }
      if (Status admitted = credentials_.admit(fd.get()); !admitted.ok()) {
        if (admitted.code() != Code::peer_lost) warn_of(fd.get(), admitted.message());
        static_cast<void>(send_all(fd.get(), Handshake::refusal_of_user(), Deadline::after({})));
        continue;
      }
      drop_stranger(kMaxStrangers);
      tune_connection(fd.get());
      const int number = fd.get();
      const auto [at, fresh] =
          connections_.emplace(number, Connection{std::move(fd), Session(credentials_, Clock::now()), false});
      watch(EPOLL_CTL_ADD, number, EPOLLIN | EPOLLRDHUP);
      if (!flush(at->second)) connections_.erase(at);
    }
  }

  /// If there are `enough` unauthenticated connections, drops the one with the least time left.
  bool drop_stranger(std::size_t enough) {
    std::size_t strangers = 0;
    auto oldest = connections_.end();
    for (auto at = connections_.begin(); at != connections_.end(); ++at) {
      if (at->second.session.trusted()) continue;
      ++strangers;
      if (oldest == connections_.end() || at->second.session.wake() < oldest->second.session.wake())
        oldest = at;
    }
    if (strangers < enough) return false;
    connections_.erase(oldest);
    return true;
  }

  /// False when the connection is over.
  bool hear(Connection& connection, std::uint32_t events, bool& changed) {
    if (events & EPOLLIN) {
      std::array<char, 1 << 16> bytes;
      const ssize_t got = ::recv(connection.fd.get(), bytes.data(), bytes.size(), 0);
      if (got == 0) return false;
      if (got < 0 && !would_block(errno) && errno != EINTR) return false;
      if (got > 0 && !connection.session.receive({bytes.data(), static_cast<std::size_t>(got)})) {
        warn_of(connection.fd.get(), connection.session.trouble());
        flush(connection);
        return false;
      }
    } else if (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) {
      return false;
    }
    return advance(connection, Clock::now(), changed);
  }

  bool advance(Connection& connection, Session::TimePoint now, bool& changed) {
    for (;;) {
      const bool honest = connection.session.advance(table_, now, changed);
      warn_of(connection.fd.get(), connection.session.trouble());
      const bool spoke = !connection.session.output().empty();
      if (!flush(connection) || !honest) return false;
      // Sent output makes room for the replies to requests that have already arrived.
      if (!spoke || connection.blocked) return true;
    }
  }

  /// A rank with a wrong key looks like any stranger: warn the users of this job here, too.
  void warn_of(int fd, const std::string& trouble) {
    if (trouble.empty() || warnings_ == kMaxWarnings) return;
    ++warnings_;
    log().warn("the store refused {}: {}", remote_name(fd), trouble);
  }

  bool flush(Connection& connection) {
    std::string& output = connection.session.output();
    std::size_t sent = 0;
    while (sent < output.size()) {
      const ssize_t put =
          ::send(connection.fd.get(), output.data() + sent, output.size() - sent, MSG_NOSIGNAL);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0 && !would_block(errno)) return false;
      if (put < 0) break;
      sent += static_cast<std::size_t>(put);
    }
    output.erase(0, sent);
    const bool blocked = !output.empty();
    if (blocked != connection.blocked) {
      connection.blocked = blocked;
      watch(EPOLL_CTL_MOD, connection.fd.get(), (blocked ? EPOLLOUT : EPOLLIN) | EPOLLRDHUP);
    }
    return true;
  }

  /// Serves the sessions that waited for a change, and those whose time is over.
  void look_around(bool changed) {
    const auto now = Clock::now();
    if (now >= resume_accept_) {
      resume_accept_ = Session::TimePoint::max();
      watch(EPOLL_CTL_MOD, listener_.get(), EPOLLIN);
    }
    // A reply can admit the next request of the same connection, which may change the table again.
    bool again = true;
    while (again) {
      again = false;
      for (auto at = connections_.begin(); at != connections_.end();) {
        Session& session = at->second.session;
        const bool due = (changed && session.waiting()) || now >= session.wake();
        at = !due || advance(at->second, now, again) ? std::next(at) : connections_.erase(at);
      }
      changed = again;
    }
  }

  UniqueFd listener_;
  UniqueFd epoll_;
  UniqueFd stop_;
  const Credentials credentials_;
  std::uint16_t port_ = 0;
  ServiceThread thread_;
  // Only the service thread uses what follows.
  Table table_;
  Connections connections_;
  int warnings_ = 0;
  bool has_told_of_descriptors_ = false;
  Session::TimePoint resume_accept_ = Session::TimePoint::max();
};

}  // namespace

Result<std::unique_ptr<TcpStoreServer>> serve_store(const SocketAddress& address,
                                                    const Credentials& credentials) {
  if (Status allowed = credentials.allow(address.is_loopback(), "the store"); !allowed.ok()) return allowed;
  Result<UniqueFd> listener = listen_on(address);
  if (!listener.ok()) return listener.status();
  auto server = std::make_unique<Server>(std::move(*listener), credentials);
  if (Status status = server->start(); !status.ok()) return status;
  return std::unique_ptr<TcpStoreServer>(std::move(server));
}

std::unique_ptr<TcpStoreServer> serve_tcp_store(const std::string& host, std::uint16_t port,
                                                const std::string& key) {
  const Credentials credentials = make_credentials(config(), key).value_or_throw();
  const auto addresses = resolve(host, port).value_or_throw();
  std::string reason = "the name has no address";
  for (const SocketAddress& address : addresses) {
    auto server = serve_store(address, credentials);
    if (server.status().code() == Code::invalid_argument) server.status().throw_if_error();
    if (server.ok()) return std::move(server).value_or_throw();
    reason = server.status().message();
  }
  throw RendezvousError("cannot serve the store at " + tcp_url(host, port) + ": " + reason, {});
}

}  // namespace kolo

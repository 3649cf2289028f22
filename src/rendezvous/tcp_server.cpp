#include "rendezvous/tcp_server.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <unordered_map>
#include <utility>

#include "base/config.hpp"
#include "base/service_thread.hpp"
#include "net/listener.hpp"
#include "net/socket.hpp"
#include "rendezvous/session.hpp"

namespace kolo {
namespace {

class Server final : public TcpStoreServer, private net::Listener::Owner {
 public:
  Server(net::Listener listener, std::uint16_t port, net::Credentials credentials)
      : listener_(std::move(listener)), credentials_(std::move(credentials)), port_(port) {}

  ~Server() override {
    if (!thread_.is_here()) return;
    const std::uint64_t one = 1;
    while (::write(stop_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
    }
    thread_.join();
  }

  Status start() {
    epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
    stop_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!epoll_.valid() || !stop_.valid()) return Status::from_errno("epoll or eventfd", errno);
    watch(EPOLL_CTL_ADD, listener_.fd(), EPOLLIN);
    watch(EPOLL_CTL_ADD, stop_.get(), EPOLLIN);
    epoll_event none;
    if (::epoll_wait(epoll_.get(), &none, 1, 0) < 0) return Status::from_errno("epoll_wait", errno);
    thread_ = ServiceThread([this] { run(); });
    return {};
  }

  std::uint16_t port() const override { return port_; }

 private:
  struct Connection {
    UniqueFd fd;
    rendezvous::Session session;
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
      if (ready < 0 && errno != EINTR) return connections_.clear();  // the ranks see that the store has ended
      bool changed = false;
      bool is_called = Clock::now() >= listener_.next_time();
      for (int i = 0; i < ready; ++i) {
        const int fd = events[static_cast<std::size_t>(i)].data.fd;
        if (fd == stop_.get()) return;
        if (fd == listener_.fd()) {
          is_called = true;
        } else if (auto at = connections_.find(fd); at != connections_.end()) {
          if (!hear(at->second, events[static_cast<std::size_t>(i)].events, changed)) connections_.erase(at);
        }
      }
      look_around(changed);
      if (is_called) listener_.accept(*this);
    }
  }

  /// Until the next session's wake(), or until the time to accept again.
  int sleep_ms() const {
    auto next = listener_.next_time();
    for (const auto& [fd, connection] : connections_) next = std::min(next, connection.session.wake());
    if (next == rendezvous::Session::TimePoint::max()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
    return static_cast<int>(std::clamp<decltype(left)>(left, 0, 60'000));
  }

  Status admit(int fd) const override { return credentials_.admit(fd); }

  void accepted(UniqueFd fd) override {
    net::tune_connection(fd.get());
    const int number = fd.get();
    const auto [at, fresh] = connections_.emplace(
        number, Connection{std::move(fd), rendezvous::Session(credentials_, Clock::now()), false});
    watch(EPOLL_CTL_ADD, number, EPOLLIN | EPOLLRDHUP);
    if (!flush(at->second)) connections_.erase(at);
  }

  static bool is_stranger(const Connections::value_type& entry) { return !entry.second.session.trusted(); }

  std::size_t strangers() const override {
    return static_cast<std::size_t>(std::ranges::count_if(connections_, is_stranger));
  }

  void drop_strangers(std::size_t count) override {
    std::vector<std::pair<rendezvous::Session::TimePoint, int>> found;  // the oldest has the least time left
    for (const auto& entry : connections_) {
      if (is_stranger(entry)) found.emplace_back(entry.second.session.wake(), entry.first);
    }
    std::ranges::sort(found);
    for (std::size_t i = 0; i < count; ++i) connections_.erase(found[i].second);
  }

  /// False when the connection is over.
  bool hear(Connection& connection, std::uint32_t events, bool& changed) {
    if (events & EPOLLIN) {
      std::array<char, 1 << 16> bytes;
      const ssize_t got = ::recv(connection.fd.get(), bytes.data(), bytes.size(), 0);
      if (got == 0) return false;
      if (got < 0 && !net::would_block(errno) && errno != EINTR) return false;
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

  bool advance(Connection& connection, rendezvous::Session::TimePoint now, bool& changed) {
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
    if (!trouble.empty()) listener_.report(fd, trouble, true);
  }

  bool flush(Connection& connection) {
    std::string& output = connection.session.output();
    std::size_t sent = 0;
    while (sent < output.size()) {
      const ssize_t put =
          ::send(connection.fd.get(), output.data() + sent, output.size() - sent, MSG_NOSIGNAL);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0 && !net::would_block(errno)) return false;
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
    // A reply can admit the next request of the same connection, which may change the table again.
    bool again = true;
    while (again) {
      again = false;
      for (auto at = connections_.begin(); at != connections_.end();) {
        rendezvous::Session& session = at->second.session;
        const bool due = (changed && session.waiting()) || now >= session.wake();
        at = !due || advance(at->second, now, again) ? std::next(at) : connections_.erase(at);
      }
      changed = again;
    }
  }

  net::Listener listener_;
  UniqueFd epoll_;
  UniqueFd stop_;
  const net::Credentials credentials_;
  const std::uint16_t port_;
  ServiceThread thread_;
  // Only the service thread uses what follows.
  rendezvous::Table table_;
  Connections connections_;
};

}  // namespace

Result<std::unique_ptr<TcpStoreServer>> rendezvous::serve_store(const net::SocketAddress& address,
                                                                const net::Credentials& credentials) {
  if (Status allowed = credentials.allow(address.is_loopback(), "the store"); !allowed.ok()) return allowed;
  Result<UniqueFd> socket = net::listen_on(address, config().ports);
  if (!socket.ok()) return socket.status();
  const std::uint16_t port = net::local_port(socket->get());
  net::Listener listener("the store", std::move(*socket));
  if (!listener.status().ok()) return listener.status();
  auto server = std::make_unique<Server>(std::move(listener), port, credentials);
  if (Status status = server->start(); !status.ok()) return status;
  return std::unique_ptr<TcpStoreServer>(std::move(server));
}

std::unique_ptr<TcpStoreServer> serve_tcp_store(const std::string& host, std::uint16_t port,
                                                const std::string& key) {
  const net::Credentials credentials = net::make_credentials(config(), key).value_or_throw();
  const auto addresses = net::resolve(host, port).value_or_throw();
  std::string reason = "the name has no address";
  for (const net::SocketAddress& address : addresses) {
    auto server = rendezvous::serve_store(address, credentials);
    if (server.status().code() == Code::invalid_argument) server.status().throw_if_error();
    if (server.ok()) return std::move(server).value_or_throw();
    reason = server.status().message();
  }
  throw RendezvousError("cannot serve the store at " + net::tcp_url(host, port) + ": " + reason, {});
}

}  // namespace kolo

#include "comm/metrics_server.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <list>
#include <mutex>

#include <fmt/format.h>

#include "base/config.hpp"
#include "base/deadline.hpp"
#include "base/log.hpp"
#include "base/service_thread.hpp"
#include "kolo/store.hpp"
#include "net/listener.hpp"
#include "net/socket.hpp"
#include "observe/http.hpp"

namespace kolo::comm {
namespace {

constexpr std::size_t kMostClients = 32;
constexpr auto kPatience = std::chrono::seconds(5);          // for a whole request and its answer
constexpr auto kFreshness = std::chrono::milliseconds(100);  // the page is made anew only so often
constexpr int kMostAtOnce = 100;                             // connections in a tenth of a second

class MetricsServer : private net::Listener::Owner {
 public:
  explicit MetricsServer(net::Listener listener)
      : listener_(std::move(listener)), stop_(::eventfd(0, EFD_CLOEXEC)) {
    thread_ = ServiceThread([this] { serve(); });
  }
  ~MetricsServer() {
    if (!thread_.is_here()) return;
    const std::uint64_t one = 1;
    while (::write(stop_.get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
    thread_.join();
  }
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  observe::MetricsPage page;

 private:
  struct Client {
    UniqueFd fd;
    Clock::time_point expires;
    std::string request = {};
    std::string answer = {};
    std::size_t sent = 0;

    bool answered() const { return !answer.empty() && sent == answer.size(); }
    bool writes() const { return sent < answer.size(); }
  };

  void serve() {
    std::vector<pollfd> entries;
    for (;;) {
      const auto now = Clock::now();
      std::erase_if(clients_, [&](const Client& client) { return now >= client.expires; });
      entries.assign({{stop_.get(), POLLIN, 0}, {listener_.fd(), POLLIN, 0}});
      for (const Client& client : clients_) {
        entries.push_back({client.fd.get(), static_cast<short>(client.writes() ? POLLOUT : POLLIN), 0});
      }
      const bool is_paused = listener_.next_time() != Clock::time_point::max();
      const int timeout_ms = is_paused ? 100 : clients_.empty() ? -1 : 1000;
      if (::poll(entries.data(), entries.size(), timeout_ms) < 0 && errno != EINTR) return;
      if (entries[0].revents != 0) return;
      std::size_t i = 2;
      for (auto client = clients_.begin(); client != clients_.end(); ++i) {
        const bool stays = entries[i].revents == 0 || advance(*client);
        client = stays ? std::next(client) : clients_.erase(client);
      }
      if (entries[1].revents != 0 || is_paused) listener_.accept(*this);
    }
  }

  void accepted(UniqueFd fd) override { clients_.push_back({std::move(fd), Clock::now() + kPatience}); }
  std::size_t strangers() const override { return clients_.size(); }
  std::size_t most_strangers() const override { return kMostClients; }
  void drop_strangers(std::size_t count) override {
    for (; count > 0; --count) clients_.pop_front();
  }

  /// Whether the client stays.
  bool advance(Client& client) {
    if (client.writes()) return write(client);
    std::array<char, 4096> block;
    const ssize_t got = ::recv(client.fd.get(), block.data(), block.size(), 0);
    if (got < 0) return net::would_block(errno) || errno == EINTR;
    if (got == 0) return false;
    // Bytes behind the request are read too: unread ones would make the system reset the connection, and the
    // client might lose the answer.
    if (client.answered()) return true;
    client.request.append(block.data(), static_cast<std::size_t>(got));
    const observe::http::Verdict verdict = observe::http::judge(client.request);
    if (verdict == observe::http::Verdict::incomplete) return true;
    client.answer = observe::http::response(
        verdict, verdict == observe::http::Verdict::page ? text() : std::string_view());
    return write(client);
  }

  bool write(Client& client) {
    while (client.writes()) {
      const ssize_t put = ::send(client.fd.get(), client.answer.data() + client.sent,
                                 client.answer.size() - client.sent, MSG_NOSIGNAL);
      if (put < 0) return net::would_block(errno) || errno == EINTR;
      client.sent += static_cast<std::size_t>(put);
    }
    ::shutdown(client.fd.get(), SHUT_WR);
    return true;
  }

  std::string_view text() {
    if (const auto now = Clock::now(); text_.empty() || now - text_made_ >= kFreshness) {
      text_ = page.text();
      text_made_ = now;
    }
    return text_;
  }

  net::Listener listener_;
  UniqueFd stop_;
  std::list<Client> clients_;  // oldest first
  std::string text_;
  Clock::time_point text_made_;
  ServiceThread thread_;
};

}  // namespace

Result<MetricsPlace> parse_metrics_place(const std::string& text, int local_rank) {
  const auto colon = text.rfind(':');
  MetricsPlace place{colon == std::string::npos ? "127.0.0.1" : text.substr(0, colon), 0};
  const std::string digits = colon == std::string::npos ? text : text.substr(colon + 1);
  if (place.host.size() > 2 && place.host.front() == '[' && place.host.back() == ']') {
    place.host = place.host.substr(1, place.host.size() - 2);
  } else if (place.host.find_first_of(":[]") != std::string::npos) {
    place.host.clear();
  }
  int port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (place.host.empty() || error != std::errc() || end != digits.data() + digits.size() || port < 1 ||
      port > 65535) {
    return Status(Code::invalid_argument,
                  "it must be a port from 1 to 65535, or ADDRESS:PORT, such as 9400 or 10.0.0.1:9400");
  }
  if (port + local_rank > 65535) {
    return Status(Code::invalid_argument,
                  fmt::format("the port of local rank {} would be {}", local_rank, port + local_rank));
  }
  place.port = static_cast<std::uint16_t>(port + local_rank);
  return place;
}

Result<std::shared_ptr<observe::MetricsPage>> serve_metrics_at(const MetricsPlace& place) {
  const auto addresses = net::resolve(place.host, place.port);
  if (!addresses.ok()) return addresses.status();
  Status failure;
  for (const net::SocketAddress& address : addresses.value()) {
    auto socket = net::listen_on(address);
    if (!socket.ok()) {
      failure = socket.status();
      continue;
    }
    net::Listener listener("the metrics page", std::move(*socket), kMostAtOnce);
    if (!listener.status().ok()) return listener.status();
    const auto server = std::make_shared<MetricsServer>(std::move(listener));
    return std::shared_ptr<observe::MetricsPage>(server, &server->page);
  }
  return failure.prefixed(net::tcp_url(place.host, place.port));
}

std::shared_ptr<observe::MetricsPage> serve_metrics() {
  static std::mutex mutex;
  static std::weak_ptr<observe::MetricsPage> served;
  static bool has_failed = false;
  const std::string& setting = config().metrics;
  if (setting.empty()) return nullptr;
  const std::lock_guard lock(mutex);
  if (auto page = served.lock()) return page;
  if (has_failed) return nullptr;
  const auto place = parse_metrics_place(setting, launch_from_environment().local_rank);
  auto page = place.ok() ? serve_metrics_at(place.value()) : place.status();
  if (!page.ok()) {
    has_failed = true;
    log().warn("no metrics: KOLO_METRICS={}: {}", setting, page.status().message());
    return nullptr;
  }
  log().info("metrics at {}/metrics",
             "http" + net::tcp_url(place.value().host, place.value().port).substr(3));
  served = page.value();
  return std::move(page).value();
}

}  // namespace kolo::comm

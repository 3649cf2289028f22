#include "rendezvous/tcp_client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "base/config.hpp"
#include "base/home_process.hpp"
#include "base/log.hpp"
#include "base/reminder.hpp"
#include "net/socket.hpp"
#include "rendezvous/channel.hpp"
#include "rendezvous/own_store.hpp"
#include "rendezvous/table.hpp"
#include "rendezvous/wire.hpp"

namespace kolo {
namespace {

/// A server that does not reply within this time is lost.
constexpr auto kReplyTime = std::chrono::seconds(10);
/// The longest wait for keys in one request; a longer one is asked for again, which shows that the server
/// lives.
constexpr std::chrono::nanoseconds kWaitTime = std::chrono::seconds(5);
/// Longest time for one connection and its handshake, so that a port that never answers is passed over.
constexpr auto kAttemptTime = std::chrono::seconds(2);

/// An error is this rank's own: its settings do not allow it to dial that address.
Result<rendezvous::Greeting> dial(const rendezvous::StoreAddress& at, const Deadline& deadline) {
  const auto addresses = net::resolve(at.host, at.port);
  if (!addresses.ok()) return rendezvous::Greeting{{}, false, addresses.status().message()};
  rendezvous::Greeting last;
  bool may_lead = false;
  for (const net::SocketAddress& address : addresses.value()) {
    Status allowed = at.credentials.allow(address.is_loopback(), net::tcp_url(at.host, at.port));
    if (!allowed.ok()) return allowed;
    const Deadline attempt =
        Deadline::after(std::min<std::chrono::nanoseconds>(deadline.left(), kAttemptTime));
    Result<UniqueFd> fd = net::connect_to(address, attempt);
    rendezvous::Greeting now = fd.ok()
                                   ? rendezvous::Greeting::exchange(std::move(*fd), at.credentials, attempt)
                                   : rendezvous::Greeting{{}, false, fd.status().message()};
    if (now.channel.valid()) return now;
    if (!last.refused) last = std::move(now);  // a refusal says more than a closed port
    may_lead = may_lead || !address.is_loopback() || net::source_towards(address);
  }
  // No process of another host can mend it, so there is nothing to wait for.
  if (!may_lead && !addresses.value().empty()) {
    const auto loopback = net::loopback_host();
    return loopback.ok()
               ? Status(Code::system, at.host + " leads nowhere on this host, which has " + *loopback)
               : loopback.status();
  }
  return last;
}

/// Each operation in progress has a connection of its own, from a pool, so a waiting operation delays no
/// other.
class TcpStore final : public Store, public rendezvous::OwnStore {
 public:
  TcpStore(rendezvous::StoreAddress address, rendezvous::Channel first) : address_(std::move(address)) {
    idle_.push_back(std::move(first));
  }

  void set(const std::string& key, const std::string& value) override {
    ask({rendezvous::wire::Kind::set, 0, {key, value}});
  }

  std::string get(const std::string& key, std::chrono::nanoseconds timeout) override {
    const Deadline deadline = Deadline::after(timeout);
    rendezvous::wire::Message reply;
    do {
      reply = ask({rendezvous::wire::Kind::get, patience(deadline), {key}});
    } while (reply.kind == rendezvous::wire::Kind::late && !deadline.passed());
    if (reply.kind == rendezvous::wire::Kind::late)
      rendezvous::missing_key(key, describe(), timeout).throw_if_error();
    if (reply.items.size() != 1) senseless();
    return std::move(reply.items[0]);
  }

  std::int64_t add(const std::string& key, std::int64_t amount) override {
    return ask({rendezvous::wire::Kind::add, amount, {key}}).number;
  }

  std::vector<std::string> wait(const std::vector<std::string>& keys,
                                std::chrono::nanoseconds timeout) override {
    const Deadline deadline = Deadline::after(timeout);
    std::vector<std::string> missing;
    for (std::size_t begin = 0; begin < keys.size();) {
      // As many keys as fit into one message.
      rendezvous::wire::Message request{rendezvous::wire::Kind::wait, 0, {}};
      std::size_t bytes = 64;
      while (begin < keys.size() && request.items.size() < rendezvous::wire::kMaxItems &&
             bytes + keys[begin].size() + 4 <= rendezvous::wire::kMaxBodyBytes) {
        bytes += keys[begin].size() + 4;
        request.items.push_back(keys[begin++]);
      }
      if (request.items.empty()) rendezvous::check_key(keys[begin]).throw_if_error();
      do {
        request.number = patience(deadline);
        request.items = ask(request).items;
      } while (!request.items.empty() && !deadline.passed());
      missing.insert(missing.end(), std::make_move_iterator(request.items.begin()),
                     std::make_move_iterator(request.items.end()));
    }
    return missing;
  }

  void remove(const std::string& key) override { ask({rendezvous::wire::Kind::remove, 0, {key}}); }

  std::string describe() const override { return net::tcp_url(address_.host, address_.port); }
  std::string host() const override { return address_.known_as.empty() ? address_.host : address_.known_as; }

 private:
  static std::int64_t patience(const Deadline& deadline) {
    return std::min(deadline.left(), kWaitTime).count();
  }

  [[noreturn]] void senseless() const {
    throw RendezvousError("the store " + describe() + " sent a reply that makes no sense", {});
  }

  rendezvous::wire::Message ask(const rendezvous::wire::Message& request) {
    // The connections belong to the parent: the server would take both processes' bytes for one stream.
    if (!home_.is_here()) home_.refusal("this store's connection").throw_if_error();
    rendezvous::wire::check_request(request).throw_if_error();
    // A server that was silent once is not waited for again.
    Result<rendezvous::wire::Message> reply =
        is_silent_ ? Status(Code::timeout, "") : exchange(request, Deadline::after(kReplyTime));
    if (!reply.ok()) {
      if (reply.status().code() == Code::timeout) is_silent_ = true;
      throw RendezvousError(
          "the store " + describe() + " is lost: " +
              (is_silent_ ? "no answer: the process that serves it is stopped, or its machine or "
                            "network is down"
                          : reply.status().message()),
          {});
    }
    if (reply->kind == rendezvous::wire::Kind::wrong) {
      throw InvalidArgumentError(reply->items.empty() ? "the store refused the request" : reply->items[0],
                                 {});
    }
    if (reply->kind != rendezvous::wire::Kind::done && reply->kind != rendezvous::wire::Kind::late)
      senseless();
    return std::move(*reply);
  }

  Result<rendezvous::wire::Message> exchange(const rendezvous::wire::Message& request,
                                             const Deadline& deadline) {
    rendezvous::Channel channel = take_idle();
    if (!channel.valid()) {
      Result<rendezvous::Greeting> greeting = dial(address_, deadline);
      if (!greeting.ok()) return greeting.status();
      if (!greeting->channel.valid()) return Status(Code::rendezvous, greeting->reason);
      channel = std::move(greeting->channel);
    }
    if (Status status = channel.send(rendezvous::wire::encode(request), deadline); !status.ok())
      return status;
    std::string head(rendezvous::wire::kHeadBytes, '\0');
    if (Status status = channel.receive(head, deadline); !status.ok()) return status;
    const Result<std::size_t> bytes = rendezvous::wire::body_bytes(head);
    if (!bytes.ok()) return bytes.status();
    std::string body(bytes.value(), '\0');
    if (Status status = channel.receive(body, deadline); !status.ok()) return status;
    Result<rendezvous::wire::Message> reply = rendezvous::wire::decode(body);
    if (reply.ok()) {
      const std::lock_guard lock(mutex_);
      idle_.push_back(std::move(channel));
    }
    return reply;
  }

  rendezvous::Channel take_idle() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return {};
    rendezvous::Channel channel = std::move(idle_.back());
    idle_.pop_back();
    return channel;
  }

  const HomeProcess home_;
  const rendezvous::StoreAddress address_;
  std::atomic<bool> is_silent_ = false;
  std::mutex mutex_;
  std::vector<rendezvous::Channel> idle_;
};

}  // namespace

Result<std::shared_ptr<Store>> rendezvous::find_store(const rendezvous::StoreAddress& address,
                                                      const Deadline& deadline) {
  const auto began = Clock::now();
  Reminder reminder;
  auto pause = std::chrono::nanoseconds(std::chrono::milliseconds(10));
  std::string reason;
  for (;;) {
    for (int i = 0; i < address.ports; ++i) {
      rendezvous::StoreAddress at = address;
      at.port = static_cast<std::uint16_t>(address.port + i);
      Result<rendezvous::Greeting> dialled = dial(at, deadline);
      if (!dialled.ok()) return dialled.status();
      rendezvous::Greeting& attempt = *dialled;
      if (attempt.channel.valid()) {
        return std::shared_ptr<Store>(std::make_shared<TcpStore>(std::move(at), std::move(attempt.channel)));
      }
      if (attempt.refused && address.ports == 1) {
        return Status(Code::rendezvous, net::tcp_url(at.host, at.port) + ": " + attempt.reason);
      }
      if (i == 0 || attempt.refused) reason = std::move(attempt.reason);
    }
    if (deadline.passed()) break;
    if (reminder.is_due()) {
      log().warn("waiting {:.0f} s for the store at {} ({})", reminder.waited_seconds(),
                 net::tcp_url(address.host, address.port), reason);
    }
    std::this_thread::sleep_for(std::min(pause, deadline.left()));
    pause = std::min<std::chrono::nanoseconds>(pause * 2, std::chrono::milliseconds(500));
  }
  std::string where = net::tcp_url(address.host, address.port);
  if (address.ports > 1) where += fmt::format(" to port {}", address.port + address.ports - 1);
  ErrorContext context;
  context.waited = Clock::now() - began;
  return Status(Code::rendezvous,
                fmt::format("no store answered at {} within {:.3g} s (last: {})", where,
                            to_seconds(context.waited), reason),
                context);
}

std::shared_ptr<Store> connect_tcp_store(const std::string& host, std::uint16_t port, const std::string& key,
                                         std::chrono::nanoseconds timeout) {
  net::Credentials credentials = net::make_credentials(config(), key).value_or_throw();
  return rendezvous::find_store({host, port, 1, std::move(credentials)}, Deadline::after(timeout))
      .value_or_throw();
}

}  // namespace kolo

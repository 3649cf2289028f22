#include "rendezvous/tcp_client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <vector>

#include "rendezvous/proof.hpp"
#include "rendezvous/socket.hpp"
#include "rendezvous/table.hpp"
#include "rendezvous/wire.hpp"

namespace kolo {
namespace {

using proof::Verdict;

/// How much longer than the server's own timeout we wait for its reply.
constexpr auto kReplyMargin = std::chrono::seconds(10);
/// Longest time for one connection and its proof, so that a port which swallows everything is passed over.
constexpr auto kAttemptTime = std::chrono::seconds(2);

/// One connection on which both sides have proved that they know the key.
struct Attempt {
  UniqueFd fd;
  bool refused = false;
  std::string reason;  ///< why there is no fd
};

Attempt greet(UniqueFd fd, const std::string& key, const Deadline& deadline) {
  proof::ClientProof proof(key);
  const std::string stranger = "something else than kolo's store answers there";
  std::string greeting(proof::kGreetingBytes, '\0');
  if (Status status = receive_all(fd.get(), greeting, deadline); !status.ok()) {
    return {{}, false, status.code() == Code::timeout ? stranger : status.message()};
  }
  const std::string answer = proof.answer(greeting);
  if (answer.empty()) return {{}, false, stranger};
  std::string verdict(proof::kVerdictBytes, '\0');
  Status status = send_all(fd.get(), answer, deadline);
  if (status.ok()) status = receive_all(fd.get(), verdict, deadline);
  if (!status.ok()) return {{}, false, status.message()};
  switch (proof.believe(verdict)) {
    case Verdict::accepted:
      return {std::move(fd), false, ""};
    case Verdict::refused:
      return {{}, true, "the store there refused this process's key; KOLO_KEY must be the same on all ranks"};
    case Verdict::stranger:
      break;
  }
  return {{}, true, "the store there does not know this job's key"};
}

Attempt dial(const std::string& host, std::uint16_t port, const std::string& key, const Deadline& deadline) {
  const auto addresses = resolve(host, port);
  if (!addresses.ok()) return {{}, false, addresses.status().message()};
  Attempt last;
  for (const SocketAddress& address : addresses.value()) {
    const Deadline attempt =
        Deadline::after(std::min<std::chrono::nanoseconds>(deadline.left(), kAttemptTime));
    Result<UniqueFd> fd = connect_to(address, attempt);
    Attempt now = fd.ok() ? greet(std::move(*fd), key, attempt) : Attempt{{}, false, fd.status().message()};
    if (now.fd.valid()) return now;
    if (!last.refused) last = std::move(now);  // a refusal tells more than a closed port
  }
  return last;
}

/// Every operation has a connection of its own, from a pool, so that one that waits holds nobody up.
class TcpStore final : public Store {
 public:
  TcpStore(StoreAddress address, std::chrono::nanoseconds timeout, UniqueFd first)
      : address_(std::move(address)), timeout_(timeout) {
    idle_.push_back(std::move(first));
  }

  void set(const std::string& key, const std::string& value) override {
    ask({wire::Kind::set, 0, {key, value}}, timeout_);
  }

  std::string get(const std::string& key, std::chrono::nanoseconds timeout) override {
    wire::Message reply = ask({wire::Kind::get, count(timeout), {key}}, with_margin(timeout));
    if (reply.kind == wire::Kind::late) missing_key(key, describe(), timeout).throw_if_error();
    if (reply.items.size() != 1) senseless();
    return std::move(reply.items[0]);
  }

  std::int64_t add(const std::string& key, std::int64_t amount) override {
    return ask({wire::Kind::add, amount, {key}}, timeout_).number;
  }

  std::vector<std::string> wait(const std::vector<std::string>& keys,
                                std::chrono::nanoseconds timeout) override {
    const Deadline deadline = Deadline::after(timeout);
    std::vector<std::string> missing;
    for (std::size_t begin = 0; begin < keys.size();) {
      // As many keys as fit into one message.
      wire::Message request{wire::Kind::wait, 0, {}};
      std::size_t bytes = 64;
      while (begin < keys.size() && request.items.size() < wire::kMaxItems &&
             bytes + keys[begin].size() + 4 <= wire::kMaxBodyBytes) {
        bytes += keys[begin].size() + 4;
        request.items.push_back(keys[begin++]);
      }
      if (request.items.empty()) check_key(keys[begin]).throw_if_error();
      const auto left = deadline.left();
      request.number = count(left);
      wire::Message reply = ask(request, with_margin(left));
      missing.insert(missing.end(), std::make_move_iterator(reply.items.begin()),
                     std::make_move_iterator(reply.items.end()));
    }
    return missing;
  }

  void remove(const std::string& key) override { ask({wire::Kind::remove, 0, {key}}, timeout_); }

  std::string describe() const override { return tcp_url(address_.host, address_.port); }

 private:
  static std::int64_t count(std::chrono::nanoseconds timeout) {
    return std::max<std::int64_t>(timeout.count(), 0);
  }
  static std::chrono::nanoseconds with_margin(std::chrono::nanoseconds timeout) {
    const auto most = std::chrono::nanoseconds::max() - kReplyMargin;
    return std::clamp<std::chrono::nanoseconds>(timeout, std::chrono::nanoseconds(0), most) + kReplyMargin;
  }

  [[noreturn]] void senseless() const {
    throw RendezvousError("the store " + describe() + " sent a reply that makes no sense", {});
  }

  wire::Message ask(const wire::Message& request, std::chrono::nanoseconds timeout) {
    wire::check_request(request).throw_if_error();
    Result<wire::Message> reply = exchange(request, Deadline::after(timeout));
    if (!reply.ok()) {
      throw RendezvousError("the store " + describe() + " is lost: " + reply.status().message(), {});
    }
    if (reply->kind == wire::Kind::wrong) {
      throw InvalidArgument(reply->items.empty() ? "the store refused the request" : reply->items[0], {});
    }
    if (reply->kind != wire::Kind::done && reply->kind != wire::Kind::late) senseless();
    return std::move(*reply);
  }

  Result<wire::Message> exchange(const wire::Message& request, const Deadline& deadline) {
    UniqueFd fd = take_idle();
    if (!fd.valid()) {
      Attempt attempt = dial(address_.host, address_.port, address_.key, deadline);
      if (!attempt.fd.valid()) return Status(Code::rendezvous, attempt.reason);
      fd = std::move(attempt.fd);
    }
    if (Status status = send_all(fd.get(), wire::encode(request), deadline); !status.ok()) return status;
    std::string head(wire::kHeadBytes, '\0');
    if (Status status = receive_all(fd.get(), head, deadline); !status.ok()) return status;
    const Result<std::size_t> bytes = wire::body_bytes(head);
    if (!bytes.ok()) return bytes.status();
    std::string body(bytes.value(), '\0');
    if (Status status = receive_all(fd.get(), body, deadline); !status.ok()) return status;
    Result<wire::Message> reply = wire::decode(body);
    if (reply.ok()) {
      const std::lock_guard lock(mutex_);
      idle_.push_back(std::move(fd));
    }
    return reply;
  }

  UniqueFd take_idle() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return {};
    UniqueFd fd = std::move(idle_.back());
    idle_.pop_back();
    return fd;
  }

  const StoreAddress address_;
  const std::chrono::nanoseconds timeout_;
  std::mutex mutex_;
  std::vector<UniqueFd> idle_;
};

}  // namespace

Result<std::shared_ptr<Store>> find_store(const StoreAddress& address, const Deadline& deadline,
                                          std::chrono::nanoseconds operation_timeout) {
  const auto began = Clock::now();
  auto pause = std::chrono::nanoseconds(std::chrono::milliseconds(10));
  std::string reason;
  for (;;) {
    for (int i = 0; i < address.ports; ++i) {
      StoreAddress at = address;
      at.port = static_cast<std::uint16_t>(address.port + i);
      Attempt attempt = dial(at.host, at.port, at.key, deadline);
      if (attempt.fd.valid()) {
        return std::shared_ptr<Store>(
            std::make_shared<TcpStore>(std::move(at), operation_timeout, std::move(attempt.fd)));
      }
      if (attempt.refused && address.ports == 1) {
        return Status(Code::rendezvous, tcp_url(at.host, at.port) + ": " + attempt.reason);
      }
      if (i == 0 || attempt.refused) reason = std::move(attempt.reason);
    }
    if (deadline.passed()) break;
    std::this_thread::sleep_for(std::min(pause, deadline.left()));
    pause = std::min<std::chrono::nanoseconds>(pause * 2, std::chrono::milliseconds(500));
  }
  std::string where = tcp_url(address.host, address.port);
  if (address.ports > 1) where += fmt::format(" to port {}", address.port + address.ports - 1);
  ErrorContext context;
  context.waited = Clock::now() - began;
  return Status(Code::rendezvous,
                fmt::format("no store answered at {} within {:.3g} s (last: {})", where,
                            std::chrono::duration<double>(context.waited).count(), reason),
                context);
}

std::shared_ptr<Store> connect_tcp_store(const std::string& host, std::uint16_t port, const std::string& key,
                                         std::chrono::nanoseconds timeout) {
  return find_store({host, port, 1, key}, Deadline::after(timeout), timeout).value_or_throw();
}

}  // namespace kolo

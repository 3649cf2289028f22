#include "bench/wire.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>
#include <utility>

namespace kolo::bench {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Policy, warmup, iterations, min_iterations, min_seconds, max_iterations)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Sample, algorithm, times_us, wrong, cpu_us)

namespace {

using Json = nlohmann::json;

// An abstract address begins with a zero byte and ends at its length. A path ends with a zero byte.
socklen_t fill_address(sockaddr_un& address, const std::string& name) {
  address = {};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof(address.sun_path)) throw std::runtime_error("socket name too long");
  std::memcpy(address.sun_path + (name.starts_with('/') ? 0 : 1), name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

[[noreturn]] void fail(const char* what) {
  throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

bool wait_readable(int fd, std::chrono::milliseconds timeout) {
  pollfd entry{fd, POLLIN, 0};
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (true) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    const int ms = timeout.count() < 0 ? -1 : static_cast<int>(std::max<std::int64_t>(left.count(), 0));
    const int ready = ::poll(&entry, 1, ms);
    if (ready > 0) return true;
    if (ready == 0) return false;
    if (errno != EINTR) fail("poll");
  }
}

}  // namespace

Json to_json(const Order& order) {
  Json json = order.policy;
  json.update({{"collective", name_of(order.what.kind)},
               {"ranks", order.what.ranks},
               {"dtype", kolo::name_of(order.what.dtype)},
               {"reduction", kolo::name_of(order.what.op)},
               {"in_place", order.what.in_place},
               {"count", order.what.count},
               {"tensors", order.what.tensors},
               {"compute_ms", order.what.compute_ms},
               {"steps", order.what.steps},
               {"algorithms", order.algorithms},
               {"first_iteration", order.first_iteration}});
  return json;
}

Order order_from_json(const Json& json) {
  Order order;
  const bool known = schedule::parse_collective(json.at("collective").get<std::string>(), order.what.kind) &&
                     parse_dtype(json.at("dtype").get<std::string>(), order.what.dtype) &&
                     parse_reduce_op(json.at("reduction").get<std::string>(), order.what.op);
  if (!known) throw std::runtime_error("an order that this program does not know: " + json.dump());
  json.get_to(order.policy);
  json.at("ranks").get_to(order.what.ranks);
  json.at("in_place").get_to(order.what.in_place);
  json.at("count").get_to(order.what.count);
  json.at("tensors").get_to(order.what.tensors);
  json.at("compute_ms").get_to(order.what.compute_ms);
  json.at("steps").get_to(order.what.steps);
  json.at("algorithms").get_to(order.algorithms);
  json.at("first_iteration").get_to(order.first_iteration);
  return order;
}

Json to_json(const std::vector<Sample>& samples) {
  return {{"samples", samples}};
}

std::vector<Sample> samples_from_json(const Json& json) {
  return json.at("samples").get<std::vector<Sample>>();
}

Line Line::connect(const std::string& name) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address;
  const socklen_t length = fill_address(address, name);
  if (!fd.valid() || ::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
    fail("cannot reach kolo bench");
  }
  return Line(std::move(fd));
}

void Line::write(const Json& message) {
  const std::string text = message.dump() + "\n";
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t sent = ::send(fd_.get(), text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) {
      closed_ = true;
      fail("send");
    }
    done += static_cast<std::size_t>(sent);
  }
}

std::optional<Json> Line::read(std::chrono::milliseconds timeout) {
  while (true) {
    if (const auto end = pending_.find('\n'); end != std::string::npos) {
      Json message = Json::parse(pending_.substr(0, end));
      pending_.erase(0, end + 1);
      return message;
    }
    if (closed_ || !wait_readable(fd_.get(), timeout)) return std::nullopt;
    char buffer[1 << 16];
    const ssize_t got = ::recv(fd_.get(), buffer, sizeof(buffer), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      closed_ = true;
      return std::nullopt;
    }
    pending_.append(buffer, static_cast<std::size_t>(got));
  }
}

UniqueFd listen_on(const std::string& name) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address;
  const socklen_t length = fill_address(address, name);
  const bool is_bound = fd.valid() && ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) == 0;
  if (!is_bound || ::listen(fd.get(), 256) != 0) fail("cannot listen for peers");
  return fd;
}

std::optional<Line> accept_from(int listener, std::chrono::milliseconds timeout) {
  if (!wait_readable(listener, timeout)) return std::nullopt;
  UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd.valid()) return std::nullopt;
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  const bool known = ::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0;
  if (!known || credentials.uid != ::getuid()) return std::nullopt;  // a connection of another user is closed
  return Line(std::move(fd));
}

}  // namespace kolo::bench

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
namespace {

using Json = nlohmann::json;

// An abstract address begins with a zero byte and ends at its length. A path is used as it is and ends with a
// zero byte.
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
  return {{"collective", name_of(order.what.kind)},
          {"ranks", order.what.ranks},
          {"dtype", kolo::name_of(order.what.dtype)},
          {"reduction", kolo::name_of(order.what.op)},
          {"in_place", order.what.in_place},
          {"count", order.what.count},
          {"tensors", order.what.tensors},
          {"warmup", order.policy.warmup},
          {"iterations", order.policy.iterations},
          {"min_iterations", order.policy.min_iterations},
          {"min_seconds", order.policy.min_seconds},
          {"max_iterations", order.policy.max_iterations},
          {"algorithms", order.algorithms},
          {"first_iteration", order.first_iteration}};
}

Order order_from_json(const Json& json) {
  Order order;
  const bool known = parse_kind(json.at("collective").get<std::string>(), order.what.kind) &&
                     parse_dtype(json.at("dtype").get<std::string>(), order.what.dtype) &&
                     parse_reduce_op(json.at("reduction").get<std::string>(), order.what.op);
  if (!known) throw std::runtime_error("an order that this program does not know: " + json.dump());
  json.at("ranks").get_to(order.what.ranks);
  json.at("in_place").get_to(order.what.in_place);
  json.at("count").get_to(order.what.count);
  json.at("tensors").get_to(order.what.tensors);
  json.at("warmup").get_to(order.policy.warmup);
  json.at("iterations").get_to(order.policy.iterations);
  json.at("min_iterations").get_to(order.policy.min_iterations);
  json.at("min_seconds").get_to(order.policy.min_seconds);
  json.at("max_iterations").get_to(order.policy.max_iterations);
  json.at("algorithms").get_to(order.algorithms);
  json.at("first_iteration").get_to(order.first_iteration);
  return order;
}

Json to_json(const std::vector<Sample>& samples) {
  Json list = Json::array();
  for (const Sample& sample : samples) {
    list.push_back({{"algorithm", sample.algorithm},
                    {"times_us", sample.times_us},
                    {"wrong", sample.wrong},
                    {"cpu_us", sample.cpu_us}});
  }
  return {{"samples", list}};
}

std::vector<Sample> samples_from_json(const Json& json) {
  std::vector<Sample> samples;
  for (const Json& entry : json.at("samples")) {
    samples.push_back(
        {entry.at("algorithm"), entry.at("times_us"), entry.at("wrong"), {}, entry.at("cpu_us")});
  }
  return samples;
}

Line::~Line() {
  if (fd_ >= 0) ::close(fd_);
}

Line::Line(Line&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), closed_(other.closed_), pending_(std::move(other.pending_)) {}

Line Line::connect(const std::string& name) {
  Line line(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address;
  const socklen_t length = fill_address(address, name);
  if (line.fd_ < 0 || ::connect(line.fd_, reinterpret_cast<sockaddr*>(&address), length) != 0) {
    fail("cannot reach kolo bench");
  }
  return line;
}

void Line::write(const Json& message) {
  const std::string text = message.dump() + "\n";
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t sent = ::send(fd_, text.data() + done, text.size() - done, MSG_NOSIGNAL);
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
    if (closed_ || !wait_readable(fd_, timeout)) return std::nullopt;
    char buffer[1 << 16];
    const ssize_t got = ::recv(fd_, buffer, sizeof(buffer), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      closed_ = true;
      return std::nullopt;
    }
    pending_.append(buffer, static_cast<std::size_t>(got));
  }
}

int listen_on(const std::string& name) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address;
  const socklen_t length = fill_address(address, name);
  if (fd < 0 || ::bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0 || ::listen(fd, 256) != 0) {
    const int error = errno;
    if (fd >= 0) ::close(fd);
    errno = error;
    fail("cannot listen for peers");
  }
  return fd;
}

std::optional<Line> accept_from(int listener, std::chrono::milliseconds timeout) {
  if (!wait_readable(listener, timeout)) return std::nullopt;
  Line line(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (line.fd() < 0) return std::nullopt;
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  const bool known = ::getsockopt(line.fd(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0;
  if (!known || credentials.uid != ::getuid()) return std::nullopt;  // a connection of another user is closed
  return line;
}

}  // namespace kolo::bench

// Wire: the protocol between kolo bench and a peer's program, one JSON object a line over a Unix socket. Its
// name is abstract, which leaves no file behind, or a path ("/..."), which other network namespaces reach.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "bench/case.hpp"
#include "bench/loop.hpp"

namespace kolo::bench {

/// One request to a peer: measure a case with some of its algorithms (empty list: all).
struct Order {
  Case what;
  Policy policy;
  std::vector<std::string> algorithms;
  std::uint64_t first_iteration = 0;
};

nlohmann::json to_json(const Order& order);
Order order_from_json(const nlohmann::json& json);
nlohmann::json to_json(const std::vector<Sample>& samples);
std::vector<Sample> samples_from_json(const nlohmann::json& json);

/// A connected stream of lines. Not thread-safe.
class Line {
 public:
  explicit Line(UniqueFd fd) : fd_(std::move(fd)) {}

  /// Connects to the abstract name or path; throws std::runtime_error if no process listens.
  static Line connect(const std::string& name);

  /// Throws std::runtime_error if the other side has closed.
  void write(const nlohmann::json& message);
  /// The next message; nullopt if the other side has closed or `timeout` has passed (negative: no limit).
  std::optional<nlohmann::json> read(std::chrono::milliseconds timeout);
  bool closed() const noexcept { return closed_; }

 private:
  UniqueFd fd_;
  bool closed_ = false;
  std::string pending_;
};

/// Listens on an abstract name or path; the descriptor is not inherited. Throws std::runtime_error.
UniqueFd listen_on(const std::string& name);
/// Accepts one connection of a process of this user; nullopt if there is none within `timeout`.
std::optional<Line> accept_from(int listener, std::chrono::milliseconds timeout);

}  // namespace kolo::bench

#include "base/config.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include <fmt/format.h>

#include "base/key_file.hpp"
#include "kolo/error.hpp"

namespace kolo {
namespace {

std::string text(const char* name, std::string fallback) {
  const char* value = std::getenv(name);
  return value ? std::string(value) : fallback;
}

template <typename Number>
Number number(const char* name, Number fallback, Number lowest, Number highest) {
  const char* value = std::getenv(name);
  if (!value) return fallback;
  const std::string_view view(value);
  Number parsed{};
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), parsed);
  if (error != std::errc() || end != view.data() + view.size() || !(parsed >= lowest && parsed <= highest)) {
    throw InvalidArgumentError(
        fmt::format("{}=\"{}\" must be a number from {} to {}", name, value, lowest, highest), {});
  }
  return parsed;
}

/// A file among this user's settings; "none" if the user has no home.
std::string user_file(const std::string& name) {
  const std::string settings = text("XDG_CONFIG_HOME", "");
  if (!settings.empty()) return settings + "/kolo/" + name;
  const std::string home = text("HOME", "");
  return home.empty() ? "none" : home + "/.config/kolo/" + name;
}

std::chrono::nanoseconds seconds(const char* name, double fallback, double lowest) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(number(name, fallback, lowest, 1e9) * 1e9));
}

/// 0: never. Below the lowest value silence says nothing: an idle rank on a busy machine takes a while to
/// answer.
std::chrono::nanoseconds heartbeat() {
  constexpr double kLowest = 0.25;
  const double given = number("KOLO_HEARTBEAT", 5.0, 0.0, 1e9);
  if (given > 0 && given < kLowest) {
    throw InvalidArgumentError(
        fmt::format("KOLO_HEARTBEAT={} must be 0 (never) or a number of seconds from {} on", given, kLowest),
        {});
  }
  return seconds("KOLO_HEARTBEAT", 5.0, 0.0);
}

/// "FIRST-LAST", of which the first is free to unprivileged processes.
PortRange ports() {
  const std::string given = text("KOLO_PORTS", "");
  if (given.empty()) return {};
  unsigned first = 0, last = 0;
  const char* const end = given.data() + given.size();
  const auto [dash, error] = std::from_chars(given.data(), end, first);
  const bool is_pair = error == std::errc() && dash != end && *dash == '-';
  const auto [rest, other_error] = std::from_chars(is_pair ? dash + 1 : end, end, last);
  if (!is_pair || other_error != std::errc() || rest != end || first == 0 || first > last || last > 65535) {
    throw InvalidArgumentError(
        "KOLO_PORTS=\"" + given + "\" must be two ports, the lower one first, as in 20000-20099", {});
  }
  return {static_cast<std::uint16_t>(first), static_cast<std::uint16_t>(last)};
}

bool flag(const char* name) {
  return number<int>(name, 0, 0, 1) == 1;
}

std::string read_key() {
  const std::string path = text("KOLO_KEY_FILE", "");
  const std::string given = text("KOLO_KEY", "");
  if (path.empty()) return given;
  if (!given.empty())
    throw InvalidArgumentError("KOLO_KEY and KOLO_KEY_FILE are both set; set one of them", {});
  Result<std::string> read = read_key_file(path);
  if (!read.ok()) throw InvalidArgumentError("KOLO_KEY_FILE: " + read.status().message(), {});
  return std::move(read).value();
}

void check_tls(const Config& c) {
  const bool any = !c.tls_certificate.empty() || !c.tls_private_key.empty() || !c.tls_authority.empty();
  const bool all = !c.tls_certificate.empty() && !c.tls_private_key.empty() && !c.tls_authority.empty();
  if (any && !all) {
    throw InvalidArgumentError("KOLO_TLS_CERT, KOLO_TLS_KEY and KOLO_TLS_CA belong together: set all or none",
                               {});
  }
  if (any && !c.tls) throw InvalidArgumentError("KOLO_TLS_CERT is set, but KOLO_TLS is not 1", {});
}

std::string choice(const char* name, const std::string& fallback, const std::array<const char*, 3>& allowed) {
  std::string given = text(name, fallback);
  if (std::ranges::find(allowed, given) == allowed.end()) {
    throw InvalidArgumentError(
        fmt::format("{}=\"{}\" must be {}, {} or {}", name, given, allowed[0], allowed[1], allowed[2]), {});
  }
  return given;
}

/// Upper or lower case: other libraries write INFO.
std::string log_level(std::string fallback) {
  constexpr std::string_view kLevels[] = {"trace", "debug", "info", "warn", "error", "off"};
  const std::string given = text("KOLO_LOG", std::move(fallback));
  std::string level = given;
  std::ranges::transform(level, level.begin(), [](unsigned char c) { return std::tolower(c); });
  if (std::ranges::find(kLevels, level) == std::end(kLevels)) {
    throw InvalidArgumentError("KOLO_LOG=\"" + given + "\" must be trace, debug, info, warn, error or off",
                               {});
  }
  return level;
}

Config read() {
  Config c;
  c.log_level = log_level(c.log_level);
  c.timeout = seconds("KOLO_TIMEOUT", 300.0, 0.001);
  c.heartbeat = heartbeat();
  c.transports = text("KOLO_TRANSPORTS", "");
  c.algorithm = text("KOLO_ALGORITHM", c.algorithm);
  c.table = text("KOLO_TABLE", user_file("table"));
  c.segment_bytes = number<std::uint64_t>("KOLO_SEGMENT_BYTES", c.segment_bytes, 64, 1ull << 40);
  if (const std::string wire = text("KOLO_WIRE", "native"); !parse_wire(wire, c.wire)) {
    throw InvalidArgumentError("KOLO_WIRE=\"" + wire + "\" must be native, bfloat16, float16 or int8", {});
  }
  c.interface = text("KOLO_INTERFACE", "");
  c.ports = ports();
  c.store = text("KOLO_STORE", "");
  c.store_served = flag("KOLO_STORE_SERVED");
  c.join = choice("KOLO_JOIN", c.join, {"never", "auto", "always"});
  c.insecure = flag("KOLO_INSECURE");
  c.tls = flag("KOLO_TLS");
  c.tls_certificate = text("KOLO_TLS_CERT", "");
  c.tls_private_key = text("KOLO_TLS_KEY", "");
  c.tls_authority = text("KOLO_TLS_CA", "");
  c.metrics = text("KOLO_METRICS", "");
  c.timeline = text("KOLO_TIMELINE", "");
  c.gpu = choice("KOLO_GPU", c.gpu, {"auto", "nccl", "staged"});
  c.nccl_library = text("KOLO_NCCL_LIBRARY", "");
  c.spin_us = number<std::int64_t>("KOLO_SPIN_US", c.spin_us, -1, 1'000'000);
  check_tls(c);
  return c;
}

}  // namespace

const Config& config() {
  static const Config& instance = *new Config(read());  // never destroyed: as the log
  return instance;
}

const std::string& job_key() {
  static const std::string instance = read_key();
  return instance;
}

}  // namespace kolo

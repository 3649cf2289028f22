#include "base/config.hpp"

#include <charconv>
#include <cstdlib>
#include <string_view>

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
    throw InvalidArgument(std::string(name) + "=\"" + value + "\" must be a number from " +
                              std::to_string(lowest) + " to " + std::to_string(highest),
                          {});
  }
  return parsed;
}

/// A file of this user's settings; "none" where there is no home.
std::string user_file(const std::string& name) {
  const std::string settings = text("XDG_CONFIG_HOME", "");
  if (!settings.empty()) return settings + "/kolo/" + name;
  const std::string home = text("HOME", "");
  return home.empty() ? "none" : home + "/.config/kolo/" + name;
}

Config read() {
  Config c;
  c.log_level = text("KOLO_LOG", c.log_level);
  const double seconds = number<double>("KOLO_TIMEOUT", 300.0, 0.001, 1e9);
  c.timeout = std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
  c.transports = text("KOLO_TRANSPORTS", c.transports);
  c.algorithm = text("KOLO_ALGORITHM", c.algorithm);
  c.table = text("KOLO_TABLE", user_file("table"));
  c.segment_bytes = number<std::uint64_t>("KOLO_SEGMENT_BYTES", c.segment_bytes, 64, 1ull << 40);
  if (const std::string wire = text("KOLO_WIRE", "native"); !parse_wire(wire, c.wire)) {
    throw InvalidArgument("KOLO_WIRE=\"" + wire + "\" must be native, bfloat16, float16 or int8", {});
  }
  c.interface = text("KOLO_INTERFACE", "");
  c.store = text("KOLO_STORE", "");
  c.store_served = number<int>("KOLO_STORE_SERVED", 0, 0, 1) == 1;
  c.key = text("KOLO_KEY", "");
  c.spin_us = number<std::int64_t>("KOLO_SPIN_US", c.spin_us, -1, 1'000'000);
  return c;
}

}  // namespace

const Config& config() {
  static const Config instance = read();
  return instance;
}

}  // namespace kolo

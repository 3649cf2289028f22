#include "plan/quantities.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "text/refuse.hpp"
#include "text/size.hpp"

namespace kolo::plan {
namespace {

constexpr double kMaxBytesPerSecond = 1e15;
constexpr double kMaxSeconds = 1e9;

struct Unit {
  std::string_view name;  // lower case
  double factor;
};

constexpr Unit kTimeUnits[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}};
constexpr Unit kRateUnits[] = {
    {"bit", 1. / 8},   {"kbit", 1e3 / 8},   {"mbit", 1e6 / 8},   {"gbit", 1e9 / 8},   {"tbit", 1e12 / 8},
    {"bit/s", 1. / 8}, {"kbit/s", 1e3 / 8}, {"mbit/s", 1e6 / 8}, {"gbit/s", 1e9 / 8}, {"tbit/s", 1e12 / 8},
    {"b/s", 1},        {"kb/s", 1e3},       {"mb/s", 1e6},       {"gb/s", 1e9},       {"tb/s", 1e12}};
constexpr Unit kShareUnits[] = {{"", 1}, {"%", 0.01}};

double parse_quantity(std::string_view option, std::string_view text, std::span<const Unit> units,
                      double least, double most, std::string_view accepted) {
  const auto number = cli::split_unit(text);
  const auto unit =
      number ? std::ranges::find(units, std::string_view(number->second), &Unit::name) : units.end();
  const double value = unit == units.end() ? -1 : number->first * unit->factor;
  if (value < least || value > most) cli::refuse("{} {}: {}", option, text, accepted);
  return value;
}

/// Formats in the largest unit that gives a number of 1 or more, else in the last unit. `units` are in
/// descending order.
std::string in_largest_unit(double value, std::span<const Unit> units) {
  const auto fits = std::ranges::find_if(units, [&](const Unit& unit) { return value >= unit.factor; });
  const Unit& unit = fits == units.end() ? units.back() : *fits;
  return fmt::format("{} {}", cli::four_digits(value / unit.factor), unit.name);
}

}  // namespace

std::uint64_t parse_bytes(std::string_view option, std::string_view text) {
  const auto bytes = cli::parse_size(text);
  if (!bytes || *bytes < 1) cli::refuse("{} {}: write {}", option, text, cli::kSizeForm);
  return *bytes;
}

std::uint64_t parse_count(std::string_view option, std::string_view text, std::uint64_t least,
                          std::uint64_t most, std::string_view what) {
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < least || count > most)
    cli::refuse("{} {}: write {} from {} to {}", option, text, what, least, most);
  return count;
}

double parse_seconds(std::string_view option, std::string_view text) {
  if (text == "0") return 0;
  return parse_quantity(
      option, text, kTimeUnits, 0, kMaxSeconds,
      "write a time from 0 to 1000000000s with its unit, ns, us, ms, s, min or h, such as 300ms");
}

double parse_rate(std::string_view option, std::string_view text) {
  return parse_quantity(
      option, text, kRateUnits, 1. / 8, kMaxBytesPerSecond,
      "write a rate of 1bit to 8000tbit a second with its unit, kbit, mbit, gbit or KB/s, MB/s, GB/s, such "
      "as 9.6gbit or 1.2GB/s");
}

double parse_share(std::string_view option, std::string_view text) {
  return parse_quantity(option, text, kShareUnits, 0, 1, "write a share from 0 to 1, such as 0.67 or 67%");
}

double payload_rate(std::string_view rate, std::string_view payload) {
  const double share = parse_share("--payload", payload);
  if (share == 0) cli::refuse("--payload 0: links that carry no payload carry no gradients");
  return parse_rate("--rate", rate) * share;
}

std::string with_separators(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string format_bytes(double bytes) {
  constexpr Unit kUnits[] = {{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1}};
  return in_largest_unit(bytes, kUnits);
}

std::string format_bits(double bytes_per_second) {
  constexpr Unit kUnits[] = {
      {"Tbit/s", 1e12}, {"Gbit/s", 1e9}, {"Mbit/s", 1e6}, {"kbit/s", 1e3}, {"bit/s", 1}};
  return in_largest_unit(8 * bytes_per_second, kUnits);
}

std::string format_duration(double seconds) {
  constexpr Unit kUnits[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
  return seconds == 0 ? "0 s" : in_largest_unit(seconds, kUnits);
}

TimeUnit unit_for(double shortest) {
  if (shortest >= 1) return {"s", 1};
  if (shortest >= 1e-3) return {"ms", 1e-3};
  return {"us", 1e-6};
}

std::string format_time(double seconds, const TimeUnit& unit) {
  const double value = seconds / unit.seconds;
  const int decimals = value < 100 ? 2 : value < 10'000 ? 1 : 0;
  return fmt::format("{:.{}f}", value, decimals);
}

}  // namespace kolo::plan

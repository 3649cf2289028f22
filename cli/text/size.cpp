#include "text/size.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/refuse.hpp"

namespace kolo::cli {
namespace {

constexpr double kMostBytes = 0x1p50;  // far beyond any memory, far from overflow
constexpr std::string_view kPrefixes = "kmgt";

std::string lower_case(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return result;
}

/// The factor of "", "b", "k", "ki", "kib", "kb", ...; nullopt for any other text.
std::optional<double> factor_of(std::string_view unit) {
  if (unit.empty() || unit == "b") return 1;
  const std::size_t place = kPrefixes.find(unit[0]);
  if (place == kPrefixes.npos) return std::nullopt;
  const std::string_view rest = unit.substr(1);
  if (rest.empty() || rest == "i" || rest == "ib") return std::pow(1024., static_cast<double>(place + 1));
  if (rest == "b") return std::pow(1000., static_cast<double>(place + 1));
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> parse_size(std::string_view text) {
  const auto number = split_unit(text);
  if (!number) return std::nullopt;
  const auto factor = factor_of(number->second);
  if (!factor || number->first * *factor > kMostBytes) return std::nullopt;
  return static_cast<std::uint64_t>(std::llround(number->first * *factor));
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::vector<std::uint64_t> parse_sizes(std::string_view text) {
  std::vector<std::uint64_t> sizes;
  for (const std::string_view part : split(text, ',')) {
    const auto fields = split(part, ':');
    std::vector<std::uint64_t> numbers;
    for (const auto field : fields) {
      const auto number = parse_size(field);
      if (!number) refuse("'{}' is not a size: write {}", field, kSizeForm);
      numbers.push_back(*number);
    }
    if (numbers.size() == 1) {
      sizes.push_back(numbers[0]);
      continue;
    }
    const std::uint64_t factor = numbers.size() == 3 ? numbers[2] : 2;
    if (numbers.size() > 3 || factor < 2 || numbers[0] == 0 || numbers[0] > numbers[1]) {
      refuse(
          "'{}' is not a range of sizes: write FROM:TO[:FACTOR] with 0 < FROM <= TO and"
          " FACTOR >= 2, such as 8:64M:4",
          part);
    }
    for (std::uint64_t size = numbers[0]; size <= numbers[1]; size *= factor) {
      sizes.push_back(size);
      if (size > numbers[1] / factor) break;
    }
  }
  return sizes;
}

std::string format_size(std::uint64_t bytes) {
  auto number = static_cast<double>(bytes);
  std::size_t thousands = 0;
  for (; number >= 1024 && thousands < kPrefixes.size(); ++thousands) number /= 1024;
  if (thousands == 0) return fmt::format("{} B", bytes);
  const char prefix = static_cast<char>(kPrefixes[thousands - 1] - 'a' + 'A');
  return fmt::format("{} {}iB", four_digits(number), prefix);
}

std::optional<std::pair<double, std::string>> split_unit(std::string_view text) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(number) || number < 0 || text.starts_with('-'))
    return std::nullopt;
  return std::pair(number, lower_case(text.substr(static_cast<std::size_t>(end - text.data()))));
}

std::string four_digits(double number) {
  return number >= 1000 ? fmt::format("{:.0f}", number) : fmt::format("{:.4g}", number);
}

}  // namespace kolo::cli

#include "bench/sizes.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "kolo/error.hpp"

namespace kolo::bench {
namespace {

constexpr std::uint64_t kMost = std::uint64_t{1} << 50;  // far beyond any memory, far from overflow

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end == text.data()) return std::nullopt;
  const std::string_view suffix = text.substr(static_cast<std::size_t>(end - text.data()));
  constexpr std::string_view kSuffixes = "KkMmGg";
  const std::size_t place = suffix.empty() ? 0 : kSuffixes.find(suffix);
  if (suffix.size() > 1 || place == kSuffixes.npos) return std::nullopt;
  const std::size_t shift = suffix.empty() ? 0 : 10 * (place / 2 + 1);
  if (value > (kMost >> shift)) return std::nullopt;
  return value << shift;
}

}  // namespace

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
      const auto number = parse_number(field);
      if (!number) {
        throw InvalidArgument(
            fmt::format("'{}' is not a size: write a number with an optional K, M or G, such as 64M", field),
            {});
      }
      numbers.push_back(*number);
    }
    if (numbers.size() == 1) {
      sizes.push_back(numbers[0]);
      continue;
    }
    const std::uint64_t factor = numbers.size() == 3 ? numbers[2] : 2;
    if (numbers.size() > 3 || factor < 2 || numbers[0] == 0 || numbers[0] > numbers[1]) {
      throw InvalidArgument(
          fmt::format("'{}' is not a range of sizes: write FROM:TO[:FACTOR] with 0 < FROM <= TO and"
                      " FACTOR >= 2, such as 8:64M:4",
                      part),
          {});
    }
    for (std::uint64_t size = numbers[0]; size <= numbers[1]; size *= factor) {
      sizes.push_back(size);
      if (size > numbers[1] / factor) break;
    }
  }
  return sizes;
}

std::string format_size(std::uint64_t bytes) {
  for (const auto& [shift, suffix] : {std::pair{30, 'G'}, {20, 'M'}, {10, 'K'}}) {
    const std::uint64_t unit = std::uint64_t{1} << shift;
    if (bytes >= unit && bytes % unit == 0) return fmt::format("{}{}", bytes >> shift, suffix);
  }
  return fmt::format("{}", bytes);
}

}  // namespace kolo::bench

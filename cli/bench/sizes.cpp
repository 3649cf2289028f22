#include "bench/sizes.hpp"

#include "text/refuse.hpp"
#include "text/size.hpp"

namespace kolo::bench {
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
      const auto number = cli::parse_size(field);
      if (!number) cli::refuse("'{}' is not a size: write {}", field, cli::kSizeForm);
      numbers.push_back(*number);
    }
    if (numbers.size() == 1) {
      sizes.push_back(numbers[0]);
      continue;
    }
    const std::uint64_t factor = numbers.size() == 3 ? numbers[2] : 2;
    if (numbers.size() > 3 || factor < 2 || numbers[0] == 0 || numbers[0] > numbers[1]) {
      cli::refuse(
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

}  // namespace kolo::bench

#include "text/columns.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kolo::cli {
namespace {

std::string without_trailing_spaces(const std::string& line) {
  return line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
}

}  // namespace

std::string in_columns(const std::vector<Cells>& lines, std::size_t begin, std::size_t end) {
  std::vector<std::size_t> widths;
  for (const Cells& line : lines) {
    widths.resize(std::max(widths.size(), line.size()));
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const Cells& line : lines) {
    std::string row;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const bool is_number = i >= begin && i < end;
      row += is_number ? fmt::format("{:>{}}  ", line[i], widths[i])
                       : fmt::format("{:<{}}  ", line[i], widths[i]);
    }
    text += without_trailing_spaces(row);
  }
  return text;
}

std::string wrapped(std::string_view text, std::size_t width, std::string_view first,
                    std::string_view indent) {
  std::string result, line(first);
  std::size_t words = 0;  // in this line
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (words > 0 && line.size() + word.size() > width) {
      result += without_trailing_spaces(line);
      line = indent;
      words = 0;
    }
    line.append(word) += ' ';
    ++words;
  }
  return result + without_trailing_spaces(line);
}

}  // namespace kolo::cli

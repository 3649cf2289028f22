#include "text/columns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kolo::cli {
namespace {

std::string without_trailing_spaces(const std::string& line) {
  return line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
}

/// Names and cells are ASCII, so characters are bytes.
std::string padded(const std::string& cell, const Column& column) {
  return column.is_text ? fmt::format("  {:<{}}", cell, std::max<std::size_t>(column.width, 2) - 2)
                        : fmt::format("{:>{}}", cell, column.width);
}

}  // namespace

TableLayout::TableLayout(std::vector<Column> columns, std::size_t width)
    : columns_(std::move(columns)), is_shown_(columns_.size(), true) {
  const auto total = [&] {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < columns_.size(); ++i) sum += is_shown_[i] ? columns_[i].width : 0;
    return sum;
  };
  int detail = 0;
  for (const Column& column : columns_) detail = std::max(detail, column.detail);
  for (; detail > 0 && total() > width; --detail) {
    for (std::size_t i = 0; i < columns_.size(); ++i)
      if (columns_[i].detail == detail) is_shown_[i] = false;
  }
}

std::string TableLayout::line(const Cells& cells) const {
  std::string text;
  for (std::size_t i = 0; i < columns_.size(); ++i)
    if (is_shown_[i]) text += padded(cells[i], columns_[i]);
  return text;
}

std::string TableLayout::heading() const {
  Cells names, units;
  bool has_units = false;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    names.push_back(columns_[i].name);
    units.push_back(columns_[i].unit);
    has_units = has_units || (is_shown_[i] && !columns_[i].unit.empty());
  }
  std::string text;
  for (const Cells* cells : {&names, &units}) {
    if (cells == &units && !has_units) break;
    text += without_trailing_spaces("#" + line(*cells).substr(1));
  }
  return text;
}

std::string TableLayout::row(const Cells& cells) const {
  return without_trailing_spaces(line(cells));
}

std::vector<Column> with_widths(std::vector<Column> columns, const std::vector<Cells>& rows) {
  constexpr std::size_t kGap = 2;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    std::size_t widest = std::max(columns[i].name.size(), columns[i].unit.size());
    for (const Cells& row : rows) widest = std::max(widest, row[i].size());
    columns[i].width = std::max(columns[i].width, widest + kGap);
  }
  return columns;
}

std::string table(std::vector<Column> columns, const std::vector<Cells>& rows, std::size_t width) {
  const TableLayout layout(with_widths(std::move(columns), rows), width);
  std::string text = layout.heading();
  for (const Cells& row : rows) text += layout.row(row);
  return text;
}

std::string shortened(std::string_view text, std::size_t width) {
  if (text.size() <= width) return std::string(text);
  return std::string(text.substr(0, width - 2)) + "..";
}

std::string in_columns(const std::vector<Cells>& lines) {
  std::vector<std::size_t> widths;
  for (const Cells& line : lines) {
    widths.resize(std::max(widths.size(), line.size()));
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const Cells& line : lines) {
    std::string row;
    for (std::size_t i = 0; i < line.size(); ++i) row += fmt::format("{:<{}}  ", line[i], widths[i]);
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

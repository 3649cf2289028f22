// Human-readable text: tables that fit a terminal, and wrapped lines.
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace kolo::cli {

/// Columns of a terminal, in which all output fits; --wide prints whatever there is.
inline constexpr std::size_t kTerminalWidth = 80;
inline constexpr std::size_t kAnyWidth = std::numeric_limits<std::size_t>::max();

/// The width of tables with or without --wide.
constexpr std::size_t table_width(bool wide) {
  return wide ? kAnyWidth : kTerminalWidth;
}

using Cells = std::vector<std::string>;

/// A column of a table.
struct Column {
  std::string name;
  std::string unit = {};  ///< stands below the name; may be empty
  std::size_t width = 0;  ///< at least, with the space before it
  bool is_text = false;   ///< begins at the left; numbers end at the right
  int detail = 0;         ///< columns with the largest detail are left out first; those with 0 always stay
};

/// Formats the lines of a table whose rows come one by one.
class TableLayout {
 public:
  /// Leaves out columns until a line has at most `width` characters.
  TableLayout(std::vector<Column> columns, std::size_t width);
  /// One line, or two if a column has a unit; each begins with "#".
  std::string heading() const;
  /// `cells`: one for each column, also for those that are left out.
  std::string row(const Cells& cells) const;

 private:
  std::string line(const Cells& cells) const;

  std::vector<Column> columns_;
  std::vector<bool> is_shown_;
};

/// The columns, at least as wide as their names, their units and their cells in `rows`.
std::vector<Column> with_widths(std::vector<Column> columns, const std::vector<Cells>& rows);

/// A table with columns as wide as their widest cell. The first column is text, and has room for a mark.
std::string table(std::vector<Column> columns, const std::vector<Cells>& rows, std::size_t width);

/// A line for each element of `lines`, two spaces between cells.
std::string in_columns(const std::vector<Cells>& lines);

/// Lines of at most `width`, broken at spaces. The first one begins with `first`, each later one with
/// `indent`.
std::string wrapped(std::string_view text, std::size_t width, std::string_view first = "",
                    std::string_view indent = "");

/// The text if it has at most `width` characters, else its beginning and "..".
std::string shortened(std::string_view text, std::size_t width);

}  // namespace kolo::cli

// Human-readable text: columns as wide as their widest cell, and wrapped lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kolo::cli {

using Cells = std::vector<std::string>;

/// A line for each element of `lines`, two spaces between cells. Columns [begin, end) are numbers, which end
/// at the right.
std::string in_columns(const std::vector<Cells>& lines, std::size_t begin, std::size_t end);

/// Lines of at most `width`, broken at spaces. The first one begins with `first`, each later one with
/// `indent`.
std::string wrapped(std::string_view text, std::size_t width, std::string_view first = "",
                    std::string_view indent = "");

}  // namespace kolo::cli

// The formats of a picture.
#pragma once

#include <string>
#include <string_view>

#include "draw/picture.hpp"

namespace kolo::draw {

/// A web page in one file: markup, style, script and data. `links`: more markup below its heading.
std::string to_html(const Picture& picture, std::string_view links = "");

/// Maximum number of steps of a readable sheet.
inline constexpr std::size_t kMostSheetSteps = 40;
/// An SVG file with all steps side by side; an error if there are too many steps for one sheet.
Result<std::string> to_svg(const Picture& picture);

/// Plain text, at most about 100 columns wide: the messages of each step, and the data of the ranks after it.
std::string to_text(const Picture& picture);

}  // namespace kolo::draw

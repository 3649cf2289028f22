// A picture as one sheet: all steps side by side.
#pragma once

#include <string>

#include "draw/picture.hpp"

namespace kolo::draw {

/// Maximum number of steps of a readable sheet.
inline constexpr std::size_t kMostSheetSteps = 40;

/// A whole SVG file with its own background; an error if there are too many steps for one sheet.
Result<std::string> to_svg(const Picture& picture);

}  // namespace kolo::draw

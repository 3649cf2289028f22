// A picture as one sheet: all steps side by side.
#pragma once

#include <string>

#include "draw/picture.hpp"

namespace kolo::draw {

/// The most steps that fit on a sheet that people read.
inline constexpr std::size_t kMostSheetSteps = 40;

/// A whole SVG file with a background of its own; an error where there are too many steps for one sheet.
Result<std::string> to_svg(const Picture& picture);

}  // namespace kolo::draw

// A picture as a web page in one file.
#pragma once

#include <string>

#include "draw/picture.hpp"

namespace kolo::draw {

/// The whole page: markup, style, script and data.
std::string to_html(const Picture& picture);

}  // namespace kolo::draw

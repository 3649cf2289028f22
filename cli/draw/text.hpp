// A picture for the terminal.
#pragma once

#include <string>

#include "draw/picture.hpp"

namespace kolo::draw {

/// Plain text, at most about 100 columns wide: for each step its messages, and what the ranks hold after it.
std::string to_text(const Picture& picture);

}  // namespace kolo::draw

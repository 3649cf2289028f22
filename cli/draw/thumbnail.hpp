// Thumbnail: a small picture of one step, for a page with many of them.
#pragma once

#include <string>

#include "draw/picture.hpp"

namespace kolo::draw {

/// Markup of an SVG element: the ranks as dots, and the messages of the first step that has the most.
/// gallery.css gives it its colours, and gallery.html the heads of its arrows.
std::string thumbnail_of(const Picture& picture);

}  // namespace kolo::draw

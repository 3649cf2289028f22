// The formats of a picture, and the pages of many of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

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

/// A small picture of one step, for a page with many of them: markup of an SVG element, with the ranks as
/// dots and the messages of the first step that has the most. gallery.css gives it its colours, and
/// gallery.html the heads of its arrows.
std::string thumbnail_of(const Picture& picture);

struct File {
  std::string name;
  std::string text;
};

/// The files of a folder: pages of all algorithms, a front page (index.html) and a page that shows two of
/// them side by side. Each page is complete in itself and needs no network. `sizes`: numbers of ranks, from 1
/// to kMostRanks, in ascending order; not empty. An algorithm has no page for a size that it cannot serve.
std::vector<File> gallery_of(const std::vector<int>& sizes);

}  // namespace kolo::draw

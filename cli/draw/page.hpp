// The page's files, as cmake/embed.cmake puts them into the program.
#pragma once

#include <string_view>

namespace kolo::draw {

extern const std::string_view kPageHtml;
extern const std::string_view kPageCss;
extern const std::string_view kPageJs;

}  // namespace kolo::draw

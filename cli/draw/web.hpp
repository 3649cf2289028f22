// The files of cli/draw/web, which cmake/embed.cmake puts into the program, and pages made of them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kolo::draw {

extern const std::string_view kThemeCss, kThemeJs;  // of all pages
extern const std::string_view kStepsJs;             // of pages that move between steps
extern const std::string_view kPageHtml, kPageCss, kPageJs;
extern const std::string_view kGalleryHtml, kGalleryCss, kGalleryJs;
extern const std::string_view kCompareHtml, kCompareCss, kCompareJs;

/// The text with each name replaced by its value. What is put in is not searched for names.
std::string filled_in(std::string_view text,
                      const std::vector<std::pair<std::string_view, std::string_view>>& names);

/// With & < > and quotes as entities.
std::string escaped(std::string_view text);

/// JSON that can stand in a script element: no text can end the element.
std::string for_script(std::string_view json);

}  // namespace kolo::draw

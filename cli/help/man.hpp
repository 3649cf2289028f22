// Manual pages, from the same texts as the help pages.
#pragma once

#include <filesystem>
#include <string>

#include "help/outline.hpp"

namespace kolo::cli {

/// The page in roff: "kolo-plan-step.1".
std::string man_page(const Outline& outline);

/// Writes the pages of a command and of all below it into a folder, which is made where it is missing.
void write_man_pages(const Outline& outline, const std::filesystem::path& folder);

}  // namespace kolo::cli

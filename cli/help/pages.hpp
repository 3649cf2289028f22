// What is written from the outline of a command: help pages, manual pages, and what shells offer.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "help/outline.hpp"

namespace kolo::cli {

/// The help page of a command, within 80 columns if the lines of its footer are.
std::string help_page(const Outline& outline);

/// Makes CLI11 print help_page() for --help.
class HelpFormatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

/// Writes the manual pages of a command and of all below it ("kolo-plan-step.1") into a folder, which is made
/// where it is missing.
void write_man_pages(const Outline& outline, const std::filesystem::path& folder);

/// Scripts of shells, which ask `kolo complete WORD...` what to offer: the files of cli/help/shell.
extern const std::string_view kCompletionBash, kCompletionZsh, kCompletionFish;

/// What may stand in place of the last word; `words` are those after "kolo". A line for each: the word, a tab
/// and its meaning. ":files" stands for names of files, ":program" and a tab and a number for a program and
/// its arguments, which so many words precede.
std::string completions(const Outline& kolo, const std::vector<std::string>& words);

}  // namespace kolo::cli

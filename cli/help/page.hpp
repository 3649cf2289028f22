// The help page of a command, within 80 columns if the lines of its footer are.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "help/outline.hpp"

namespace kolo::cli {

std::string help_page(const Outline& outline);

/// Makes CLI11 print help_page() for --help.
class HelpFormatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

}  // namespace kolo::cli

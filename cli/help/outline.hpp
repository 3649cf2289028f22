// Outline: what a command offers, read from its CLI::App. Help pages, manual pages and completions are made
// from it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace kolo::cli {

struct OptionOutline {
  std::vector<std::string> names;  ///< "-n", "--ranks"; empty for an argument
  std::string value;               ///< "N", "FILE", "[FILE]"; an argument's name; empty for a flag
  std::string text;
  std::string fallback;              ///< the default; may be empty
  std::vector<std::string> choices;  ///< all values, if there are few
  std::string group;                 ///< the heading above it: "Options"
  bool is_required = false;
  bool is_repeated = false;

  /// The text with the choices and the default.
  std::string full_text() const;
};

/// A command and all below it.
struct Outline {
  std::string name;  ///< with those of its parents: "kolo plan step"
  std::string purpose;
  std::string usage;  ///< "kolo plan step [OPTIONS]"
  std::vector<OptionOutline> arguments;
  std::vector<OptionOutline> options;  ///< those of a group stand together
  std::vector<Outline> commands;
  std::string footer;  ///< examples, terms, exit codes

  /// The last word of the name.
  std::string word() const;
};

/// Hidden commands and options are left out.
Outline outline_of(const CLI::App& app);

/// The values that stand for "COLLECTIVE" or "ALGORITHM", for completions; empty for other arguments.
std::vector<std::string> known_values(const std::string& value);

}  // namespace kolo::cli

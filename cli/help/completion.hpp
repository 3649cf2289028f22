// Completions of the command line, for three shells.
#pragma once

#include <string>

#include "help/outline.hpp"

namespace kolo::cli {

// A script that the shell reads.
std::string bash_completion(const Outline& kolo);
std::string zsh_completion(const Outline& kolo);
std::string fish_completion(const Outline& kolo);

/// The values of an option or argument, separated by spaces; empty if any value may be given.
std::string values_of(const OptionOutline& option);

/// Whether the value is a file's or folder's name.
bool takes_a_file(const OptionOutline& option);

/// Whether the command runs a program of the user, whose name and arguments follow.
bool runs_a_program(const Outline& command);

}  // namespace kolo::cli

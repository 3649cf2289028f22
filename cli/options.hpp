// Options that several commands have, each with the same names, meaning and help text.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace kolo::cli {

/// An option that takes a value of `type`: "N", "FILE". Its help shows the default if that is not 0 or empty.
template <typename Value>
CLI::Option* add_value(CLI::App& command, const char* names, Value& target, const char* type,
                       const std::string& what) {
  CLI::Option* option = command.add_option(names, target, what)->type_name(type);
  return target == Value{} ? option : option->capture_default_str();
}

/// --json [FILE|-]: the name for JsonLines; empty without the option. `rows`: what one JSON object holds.
CLI::Option* add_json(CLI::App& command, std::string& target, const std::string& what);

/// --wide: whether tables may be wider than a terminal.
CLI::Option* add_wide(CLI::App& command, bool& wide);

/// A count of ranks may be "auto": one for each core that this process may use.
CLI::Option* accept_auto(CLI::Option* ranks);

/// Rewrites what CLI11 would misread, before it reads the arguments: -np (as mpirun has it) becomes -n, and
/// --json gets "-" as its value if no file follows. A file is "-" or has a dot or a slash; any other word is
/// the next argument.
void normalize(std::vector<std::string>& arguments);

}  // namespace kolo::cli

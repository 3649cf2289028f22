// Parses the command line of a program that runs as several ranks.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <sstream>

namespace support {

/// Returns the exit code if the program is to end right away (--help, a wrong option); only a rank that
/// speaks prints why.
inline std::optional<int> parse(CLI::App& app, int argc, char** argv, bool speak) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream silence;
    return speak ? app.exit(error) : app.exit(error, silence, silence);
  }
  return std::nullopt;
}

}  // namespace support

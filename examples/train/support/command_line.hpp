// The command line and main() of a program that runs as several ranks.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <thread>

#include "kolo/kolo.hpp"
#include "kolo/train/tensor.hpp"

namespace support {

inline void add_progress(CLI::App& app, std::string& style) {
  app.add_option(
         "--progress", style,
         "rewrite: one line that rewrites itself; lines: a new one every second or so; none; auto: as fits "
         "the terminal")
      ->check(CLI::IsMember({"auto", "rewrite", "lines", "none"}));
}

/// Returns the exit code if the program is to end right away: 0 after --help, 2 after a wrong option. Only a
/// rank that speaks prints why.
inline std::optional<int> parse(CLI::App& app, int argc, char** argv, bool speak) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    constexpr int kUsage = 2;  // CLI11 has a code for each kind of error
    const int exit_code = error.get_exit_code() == 0 ? 0 : kUsage;
    if (speak) {
      app.exit(error);
      return exit_code;
    }
    // The first rank that exits with an error has all others stopped: the one that prints goes first.
    if (exit_code != 0) std::this_thread::sleep_for(std::chrono::seconds(2));
    return exit_code;
  }
  return std::nullopt;
}

/// The whole of main(): `body` gets the settings that `read` (as parse(), with them) has filled, and returns
/// the exit code; what it throws is told, and the exit code is 1.
template <typename Settings, typename Read, typename Body>
int run_program(const char* name, int argc, char** argv, const Read& read, const Body& body) {
  kolo::keep_freed_memory();
  try {
    Settings settings;
    const bool speak = kolo::launch_from_environment().rank == 0;
    if (const auto exit_code = read(argc, argv, speak, settings)) return *exit_code;
    return body(settings);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return 1;
  }
}

}  // namespace support

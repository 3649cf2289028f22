// --json and --output of the subcommands of bench_train.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

namespace kolo::bench {

class JsonOutput {
 public:
  /// The options belong to `command`; this object outlives it.
  void add_to(CLI::App& command);
  /// Writes the object to the file of --output, and prints it if --json was given; returns whether it was
  /// printed. Throws std::runtime_error for a file that cannot be written.
  bool write(const nlohmann::json& object) const;

 private:
  bool prints_ = false;
  std::string file_;
};

}  // namespace kolo::bench

// JSON lines: the results for programs. The first line describes the machine, each other line is one row.
#pragma once

#include <fstream>
#include <string>

#include "bench/machine.hpp"
#include "bench/row.hpp"

namespace kolo::bench {

std::string machine_line(const Machine& machine, const std::string& version, int neighbours);
/// `type` is "rewrite" for the rewriting of memory, else "result".
std::string row_line(const Row& row);
/// A line of `type` "choice", for `--algorithm all`: kolo's choice, the fastest algorithm, and their ratio.
std::string choice_line(const Case& what, const std::string& choice, const std::string& fastest,
                        const Ratio& ratio);

/// The file; without a name it drops all lines. Each line is flushed.
class JsonLines {
 public:
  /// Throws std::runtime_error if the file cannot be written.
  explicit JsonLines(const std::string& path);
  /// Throws std::runtime_error if the file cannot be written.
  void write(const std::string& line);

 private:
  const std::string path_;
  std::ofstream file_;
};

}  // namespace kolo::bench

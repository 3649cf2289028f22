// JSON lines: the same results for programs. The first line tells of the machine, each other line is one row.
#pragma once

#include <fstream>
#include <string>

#include "bench/compare.hpp"
#include "bench/machine.hpp"
#include "bench/row.hpp"

namespace kolo::bench {

std::string machine_line(const Machine& machine, const std::string& version);
/// `type` is "rewrite" for the plain rewriting of memory, else "result".
std::string row_line(const Row& row);
/// Of `--algorithm all`, `type` "choice": what kolo would have run, the fastest, and the choice's time over
/// it.
std::string choice_line(const Case& what, const std::string& choice, const std::string& fastest,
                        const Ratio& ratio);

/// The file; without a name it swallows everything. Each line is flushed, so that what was measured before an
/// interruption is there.
class JsonLines {
 public:
  /// Throws std::runtime_error when the file cannot be written.
  explicit JsonLines(const std::string& path);
  /// As well.
  void write(const std::string& line);

 private:
  const std::string path_;
  std::ofstream file_;
};

}  // namespace kolo::bench

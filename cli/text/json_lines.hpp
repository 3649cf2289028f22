// JSON lines: the output of --json.
#pragma once

#include <fstream>
#include <string>

namespace kolo::cli {

/// Where `--json [FILE|-]` writes. "-" is standard output, in place of the text; a file is written beside the
/// text; an empty name drops all lines. Each line is flushed, and written at the end of the file, so several
/// programs may take turns.
class JsonLines {
 public:
  /// `append`: the file keeps its lines. Throws std::runtime_error if the file cannot be written.
  explicit JsonLines(const std::string& path, bool append = false);
  /// Whether the text for people is left out.
  bool replaces_text() const { return path_ == "-"; }
  /// Throws std::runtime_error if the file cannot be written.
  void write(const std::string& line);

 private:
  const std::string path_;
  std::ofstream file_;
};

}  // namespace kolo::cli

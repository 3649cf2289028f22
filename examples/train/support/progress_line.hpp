// The progress line of rank 0.
#pragma once

#include <chrono>
#include <string>

namespace support {

/// Writes to stdout. On a terminal the line rewrites itself; elsewhere (`kolo run` reads a pipe) a new line
/// appears every second or so.
class ProgressLine {
 public:
  /// `style`: auto, rewrite, lines or none.
  explicit ProgressLine(const std::string& style);

  void show(const std::string& text);
  /// A line that stays.
  void note(const std::string& text);

 private:
  enum class Style { rewrite, lines, none };
  Style style_;
  bool open_ = false;  ///< a rewritable line is on the screen
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace support

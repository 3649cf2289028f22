// The progress line of rank 0.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace fashion_mnist {

struct Progress {
  int epoch;  ///< from 1
  int epochs;
  std::int64_t step;  ///< from 1
  std::int64_t steps;
  double loss;
  double images_per_second;
  double waiting;  ///< share of the step time spent waiting for communication
};

/// Writes to stdout. On a terminal the line rewrites itself; elsewhere (`kolo run` reads a pipe) a new line
/// appears every second or so.
class ProgressLine {
 public:
  /// `style`: auto, rewrite, lines or none.
  explicit ProgressLine(const std::string& style);

  void show(const Progress& progress);
  /// A line that stays.
  void note(const std::string& text);

 private:
  enum class Style { rewrite, lines, none };
  Style style_;
  bool open_ = false;  ///< a rewritable line is on the screen
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace fashion_mnist

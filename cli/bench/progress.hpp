// Progress: a line on standard error that is overwritten.
#pragma once

#include <chrono>
#include <string>

namespace kolo::bench {

/// How far a measurement of several parts has come. A value.
struct Part {
  int number = 0;      ///< of this part, from 0
  int count = 1;       ///< of all parts
  double seconds = 0;  ///< that the parts before this one took together

  /// "3/8/120.5", as a command passes it to the one that it starts.
  std::string to_text() const;
  /// The inverse; the only part of all if the text makes no sense.
  static Part parse(const std::string& text);
};

/// "31 %, 12 min left": for a fraction of the work that took so many seconds; empty if too little is done.
std::string time_left(double fraction, double seconds);

class Progress {
 public:
  /// Without `wanted` it shows nothing.
  explicit Progress(bool wanted, Part part = {}) : wanted_(wanted), part_(part) {}

  /// fraction: of this part, that is done.
  void show(const std::string& what, double fraction);
  void clear() { write(""); }

 private:
  void write(const std::string& line);

  bool wanted_;
  Part part_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace kolo::bench

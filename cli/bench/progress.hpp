// Progress: a line on standard error that is overwritten.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>

namespace kolo::bench {

class Progress {
 public:
  /// Without `wanted` it shows nothing.
  explicit Progress(bool wanted) : wanted_(wanted) {}

  void show(const std::string& what) { write("  " + what + " ..."); }
  void clear() { write(""); }

 private:
  void write(const std::string& line) {
    if (wanted_) fmt::print(stderr, "\r\x1b[K{}", line);
    if (wanted_) std::fflush(stderr);
  }

  bool wanted_;
};

}  // namespace kolo::bench

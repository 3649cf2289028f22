// The curves of another run, drawn beside those of this one.
#pragma once

#include <string>

#include "support/curve.hpp"

namespace support {

struct OtherRun {
  int ranks = 0;  ///< 0: there is none
  Curve losses;
  Curve evaluations;
};

/// Reads a metrics.json, whose list `evaluations` holds the second curve; none for an empty path. Throws
/// std::runtime_error that names a file which is none.
OtherRun read_run(const std::string& path, const char* evaluations);

/// "1 rank", "4 ranks"
std::string ranks_text(int count);

}  // namespace support

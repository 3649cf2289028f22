// Machine: where a benchmark ran, for its heading and its JSON.
#pragma once

#include <string>

#include "bench/neighbours.hpp"

namespace kolo::bench {

struct Machine {
  std::string cpu;  ///< the processor's name
  int cores = 0;    ///< that this process may use
  double memory_GB = 0;
  std::string kernel;  ///< "Linux 6.1.0-13-amd64"
};

/// Reads /proc and uname; what cannot be found stays empty.
Machine this_machine();

/// A line of JSON with `type` "machine".
std::string machine_line(const Machine& machine, const std::string& version, const Neighbourhood& neighbours);

}  // namespace kolo::bench

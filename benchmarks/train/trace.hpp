// Trace: durations of the parts of a training step, and the time at which each gradient is ready.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kolo::bench {

struct TracedParameter {
  std::string name;
  std::vector<std::int64_t> shape;
  double ready = 0;  ///< seconds from the begin of backward until its gradient was accumulated
};

/// Medians over some steps of one process on one core. Times are in seconds.
struct Trace {
  std::string model;
  std::string machine;
  std::int64_t batch = 0;
  std::int64_t tokens = 0;  ///< of a step of a language model; 0: another model
  double forward = 0;
  double backward = 0;
  double optimizer = 0;
  std::vector<TracedParameter> parameters;  ///< in the order in which they are registered

  double compute() const { return forward + backward + optimizer; }
  std::uint64_t bytes() const;  ///< of all gradients, as float32
  /// With all times multiplied by `factor`.
  Trace scaled(double factor) const;
};

/// Throws std::runtime_error, with the file's name, if it cannot be read or is no trace.
Trace read_trace(const std::string& path);
void write_trace(const std::string& path, const Trace& trace);

}  // namespace kolo::bench

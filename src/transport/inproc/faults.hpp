// Faults for tests: what the inproc transport can be told to do to the links between threads.
#pragma once

#include <chrono>
#include <string>

namespace kolo::inproc {

/// Applies to every inproc link between ranks `a` and `b` of the job named, both directions; made before or
/// after the ranks connect. Thread-safe.
void set_delay(const std::string& job, int a, int b, std::chrono::nanoseconds delay);  ///< of every byte
void set_stalled(const std::string& job, int rank, bool stalled);  ///< nothing moves to or from the rank
void lose(const std::string& job, int rank);                       ///< its links end, as if it had died
void clear_faults(const std::string& job);

}  // namespace kolo::inproc

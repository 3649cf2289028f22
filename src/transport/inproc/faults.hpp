// Faults for tests: what the inproc transport can do to the links between threads on request.
#pragma once

#include <chrono>
#include <string>

namespace kolo::transport::inproc {

/// Each applies to the inproc links of the ranks in the named job, in both directions, whether they are made
/// before or after the call. Thread-safe.
void set_delay(const std::string& job, int a, int b, std::chrono::nanoseconds delay);  ///< of every byte
void set_stalled(const std::string& job, int rank, bool stalled);  ///< nothing moves to or from the rank
void lose(const std::string& job, int rank);  ///< ends the links of the rank, as if it had died
void clear_faults(const std::string& job);

}  // namespace kolo::transport::inproc

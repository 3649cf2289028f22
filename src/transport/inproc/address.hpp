// The inproc address: which process, and which transport in it.
#pragma once

#include <string>
#include <string_view>

namespace kolo::transport::inproc {

/// "PROCESS.NUMBER": PROCESS is random per process, NUMBER per transport in it. Thread-safe.
std::string new_address();

/// Whether both are addresses of one and the same process.
bool same_process(std::string_view one, std::string_view other);

/// Whether `address` is of this process.
bool of_this_process(std::string_view address);

}  // namespace kolo::transport::inproc

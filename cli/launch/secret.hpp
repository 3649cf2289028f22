// Unpredictable random text: keys of jobs, marks of processes.
#pragma once

#include <string>

namespace kolo::cli {

/// 256 random bits from the operating system, in 64 hexadecimal digits. Throws kolo::Error if the system has
/// none.
std::string random_secret();

}  // namespace kolo::cli

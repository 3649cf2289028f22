// Random text that nobody can guess: keys of jobs, marks of processes.
#pragma once

#include <string>

namespace kolo::cli {

/// 256 random bits from the operating system, in 64 hexadecimal digits. Throws kolo::Error when it has none.
std::string random_secret();

}  // namespace kolo::cli

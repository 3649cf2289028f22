// Random bytes from the kernel, for nonces and names.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace kolo::net {

/// Fills `out` with unpredictable bytes. Never fails on a kernel that has getrandom(2).
/// Thread-safe.
void fill_random(std::span<std::byte> out);

/// `bytes` random bytes as lower-case hexadecimal digits.
std::string random_hex(std::size_t bytes);

}  // namespace kolo::net

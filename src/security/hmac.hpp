// HMAC-SHA256, and comparing secrets without telling by the time it takes how much of them is right.
#pragma once

#include <string>
#include <string_view>

namespace kolo {

inline constexpr std::size_t kMacBytes = 32;

/// HMAC-SHA256 (RFC 2104) of `text`: kMacBytes bytes. `key` may be empty. Throws std::bad_alloc.
/// Thread-safe.
std::string hmac(std::string_view key, std::string_view text);

/// Whether both are the same; the time depends on their lengths alone.
bool same_secret(std::string_view one, std::string_view other);

}  // namespace kolo

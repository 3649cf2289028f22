// HMAC-SHA256, and a comparison of secrets in constant time.
#pragma once

#include <string>
#include <string_view>

namespace kolo::net {

inline constexpr std::size_t kMacBytes = 32;

/// HMAC-SHA256 (RFC 2104) of `text`: kMacBytes bytes. `key` may be empty. Throws std::bad_alloc.
/// Thread-safe.
std::string hmac(std::string_view key, std::string_view text);
/// The same in lower-case hexadecimal digits.
std::string hmac_digits(std::string_view key, std::string_view text);

/// Whether both are the same. The time depends on their lengths only.
bool same_secret(std::string_view one, std::string_view other);

}  // namespace kolo::net

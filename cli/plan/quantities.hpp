// Quantities with units on the command line: bytes, seconds, rates and shares.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kolo::plan {

// Each parser throws InvalidArgumentError with `option`, the text and what is accepted. Units are in any
// case; numbers are decimal, without sign, exponent or separators.

/// As cli::parse_size(): "1.2GB", "25MiB"; at least 1 byte.
std::uint64_t parse_bytes(std::string_view option, std::string_view text);

/// A whole number from `least` to `most`; `what` names it in the error.
std::uint64_t parse_count(std::string_view option, std::string_view text, std::uint64_t least,
                          std::uint64_t most, std::string_view what = "a number");

/// "300ms": a number with ns, us, ms, s, min or h, in seconds; a plain 0 too. At most 10^9 s.
double parse_seconds(std::string_view option, std::string_view text);

/// "9.6gbit", "1.2GB/s": a number with bit, kbit, mbit, gbit or tbit (bits a second, as `tc` writes them;
/// also as Mbit/s) or B/s, KB/s, MB/s, GB/s or TB/s, in bytes a second. From 1 bit to 10^15 bytes a second.
double parse_rate(std::string_view option, std::string_view text);

/// "0.67", "67%": from 0 to 1.
double parse_share(std::string_view option, std::string_view text);

/// What a link carries: parse_rate() of --rate, times parse_share() of --payload, which is not 0.
double payload_rate(std::string_view rate, std::string_view payload);

/// With thousands separators: 1,200,000,000.
std::string with_separators(std::uint64_t number);

/// In the largest decimal unit that gives a number of 1 or more: 1.2 GB, 999 B. At most four significant
/// digits.
std::string format_bytes(double bytes);

/// As format_bytes(): 9.6 Gbit/s.
std::string format_bits(double bytes_per_second);

/// As format_bytes(): 300 ms, 1.5 s; seconds are the largest unit.
std::string format_duration(double seconds);

struct TimeUnit {
  std::string_view name;
  double seconds;
};

/// The largest unit in which `shortest` is one or more; seconds at most, microseconds at least.
TimeUnit unit_for(double shortest);

/// Two decimals, or fewer for large numbers.
std::string format_time(double seconds, const TimeUnit& unit);

}  // namespace kolo::plan

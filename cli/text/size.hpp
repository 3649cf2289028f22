// Numbers with units, as people write and read them. Sizes in bytes: "64K", "1.5 MiB".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kolo::cli {

/// What parse_size() reads, for messages.
inline constexpr std::string_view kSizeForm =
    "a number of bytes, with K, M, G or T (times 1024) or KB, MB, GB or TB (times 1000), such as 64K, 1.5MiB "
    "or 1.2GB";

/// "8", "64K", "64KiB", "1.5M", "1.2GB", in any case: K, Ki and KiB are 1024 bytes, KB is 1000, as for GNU's
/// programs. Rounded to whole bytes. nullopt for any other text, and above 2^50.
std::optional<std::uint64_t> parse_size(std::string_view text);

/// Comma-separated sizes, each as parse_size() reads it, or a range FROM:TO[:FACTOR] that multiplies by
/// FACTOR (default 2), in the order given. Throws InvalidArgumentError.
std::vector<std::uint64_t> parse_sizes(std::string_view text);

/// The parts between separators; an empty text is one empty part.
std::vector<std::string_view> split(std::string_view text, char separator);

/// In the largest unit of 1024 that gives a number of 1 or more, with at most four significant digits: "8 B",
/// "1.75 KiB", "64 MiB".
std::string format_size(std::uint64_t bytes);

/// A number and the unit after it, in lower case; nullopt if `text` does not begin with a number. The number
/// is decimal, without sign or exponent.
std::optional<std::pair<double, std::string>> split_unit(std::string_view text);

/// At most four significant digits, or more before the point; never an exponent.
std::string four_digits(double number);

}  // namespace kolo::cli

// Sizes: "8,1K,64M" and "8:64M:4" as numbers of bytes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace kolo::bench {

/// Comma-separated sizes, each as cli::parse_size() reads it, or a range FROM:TO[:FACTOR] that multiplies by
/// FACTOR (default 2), in the order given. Throws InvalidArgument.
std::vector<std::uint64_t> parse_sizes(std::string_view text);

/// The parts between separators; an empty text is one empty part.
std::vector<std::string_view> split(std::string_view text, char separator);

}  // namespace kolo::bench

// Suggestions for a mistyped name: "did you mean 'all_reduce'?"
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kolo {

/// The known names that `name` may stand for, in their order; none if no name is similar. Case, '_' and '-'
/// do not matter. The first of these rules that finds a name counts: the names are equal; one contains the
/// other; few letters differ (inserted, removed, replaced, or two swapped) in the whole name or between its
/// '_'.
std::vector<std::string_view> similar_names(std::string_view name, std::span<const std::string_view> known);

/// "; did you mean 'a' or 'b'?"; empty without a similar name.
std::string did_you_mean(std::string_view name, std::span<const std::string_view> known);
std::string did_you_mean(std::string_view name, const std::vector<std::string>& known);

}  // namespace kolo

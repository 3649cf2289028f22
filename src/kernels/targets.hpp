// Targets: the instruction sets that the kernels are compiled for. For tests and benchmarks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kolo::kernels {

/// The targets that were compiled and that this CPU can run, best first: "AVX3", "AVX2", ...
std::vector<std::string> supported_targets();

/// The target whose kernels are looked up now.
std::string current_target();

/// From now on look-ups return the kernels of the named target; an empty name restores the best one. Returns
/// false, and changes nothing, if the name is not among supported_targets(). Function pointers handed out
/// before stay valid.
bool use_target(std::string_view name);

}  // namespace kolo::kernels

// Targets: the instruction sets that the kernels were compiled for. For tests and benchmarks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kolo::kernels {

/// Those that were compiled and that this CPU can run, best first: "AVX3", "AVX2", ...
std::vector<std::string> supported_targets();

/// The one whose kernels are looked up now.
std::string current_target();

/// Makes look-ups from now on return the kernels of the named target; an empty name brings the best one back.
/// False, and no change, when it is not among supported_targets(). Pointers handed out before stay valid.
bool use_target(std::string_view name);

}  // namespace kolo::kernels

// Listed: memory of the ranks' parts, where the caller has a buffer for each.
#pragma once

#include <cstddef>
#include <vector>

namespace kolo::engine {

/// By rank; empty for data in one piece. The other ranks need not know which of the two it is: plans hold
/// offsets, and the ends of parts within a message or a step are found as it runs. (If messages were cut at
/// the ends, all ranks would have to know, and algorithms that save messages would not.)
struct Listed {
  std::vector<std::byte*> input, output;
};

}  // namespace kolo::engine

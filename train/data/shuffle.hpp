// shuffle(): orders that depend on a seed and an epoch alone.
#pragma once

#include <cstdint>
#include <vector>

namespace kolo::train {

/// Fisher-Yates, the same on every machine and with every compiler.
void shuffle(std::vector<std::int64_t>& values, std::uint64_t seed, std::uint64_t epoch);

/// 0 to count - 1, shuffled.
std::vector<std::int64_t> shuffled(std::int64_t count, std::uint64_t seed, std::uint64_t epoch);

}  // namespace kolo::train

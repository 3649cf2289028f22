// Limits that kolo is designed for.
#pragma once

namespace kolo {

/// Ranks of a group. Each rank keeps some hundred bytes for each other rank, and asks the store about all of
/// them.
inline constexpr int kMostRanks = 65536;

}  // namespace kolo

// What kolo is made for, at most.
#pragma once

namespace kolo {

/// Of a group. Each rank keeps some hundred bytes for each other one, and asks the store about all of them.
inline constexpr int kMostRanks = 65536;

}  // namespace kolo

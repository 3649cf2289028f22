// The table of `kolo plan training`.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plan/training/ranking.hpp"

namespace kolo::plan {

/// The job and its ways, as lines for people of at most `width` characters. If that leaves no room beside a
/// way, its reason stands below it.
std::string training_table(const Job& job, const std::vector<RankedWay>& ranking, std::size_t width);

/// The names of a way's stages, "embedding..block 3", one after the other.
std::vector<std::string> stage_names(const Job& job, const Way& way);

}  // namespace kolo::plan

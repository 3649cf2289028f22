// Borders of a pipeline's stages.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/training/group_prices.hpp"
#include "plan/training/job.hpp"

namespace kolo::plan {

/// The first layer of each stage, by kolo::partition() of what the layers take: messages are hidden under
/// computing as far as they can be.
std::vector<std::size_t> borders_of(const Job& job, const Way& way, GroupPrices& prices);

}  // namespace kolo::plan

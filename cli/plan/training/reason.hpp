// Why a way to train takes the time that it takes, in words.
#pragma once

#include <string>

#include "plan/training/ranking.hpp"

namespace kolo::plan {

/// What a step loses most time to, or what of its memory is too much.
std::string reason_of(const Job& job, const RankedWay& ranked);

}  // namespace kolo::plan

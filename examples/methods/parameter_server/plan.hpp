// What the ranks of a job with parameter servers agree on before they begin, through the store.
#pragma once

#include <chrono>
#include <string>

#include "kolo/store.hpp"
#include "methods/parameter_server.hpp"

namespace kolo::methods {

/// What is wrong with the options on a rank of `size`; empty: nothing.
std::string problem_with(const ParameterServerOptions& options, int size);

/// The options as lines, each of which says one thing.
std::string text_of(const ParameterServerOptions& options);

/// What a rank brings: `problem` is what it cannot train for, empty if it can; `text` must be the same on
/// all.
struct PlanOfRank {
  std::string text;
  std::string problem;
};

/// Every rank calls it, also one that is started again. Returns when all ranks' plans are there and equal.
/// Else throws on all of them: InvalidArgumentError with the first rank that has a problem, MismatchError
/// with the first rank whose plan is not that of most others, RendezvousError with the ranks that have not
/// come.
void agree_on_plan(Store& store, int rank, int size, const PlanOfRank& mine,
                   std::chrono::nanoseconds timeout);

}  // namespace kolo::methods

// Runs one collective with lists of buffers and checks its result.
#pragma once

#include "support/cases.hpp"

namespace kolo::test {

/// How a listed case has its data.
struct Listing {
  bool uneven = true;  ///< parts of different lengths, some empty
  bool on_all = true;  ///< else ranks of odd numbers have one buffer
  bool blocks = true;  ///< else the calls are asynchronous
};

/// Whether the collective has forms with lists.
inline bool takes_lists(schedule::Collective collective) {
  const schedule::CollectiveTraits& traits = schedule::traits_of(collective);
  return traits.input == schedule::Parts::per_rank || traits.output == schedule::Parts::per_rank;
}

/// Runs a collective that takes lists on about `count` elements, out of place and in place, with every root;
/// called on every rank. Throws if a result is wrong.
void run_listed(schedule::Collective collective, const Case& c, std::uint64_t count, const Listing& listing);

}  // namespace kolo::test

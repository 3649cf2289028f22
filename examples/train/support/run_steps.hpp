// The training loop of a program that may be elastic.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "kolo/communicator.hpp"
#include "kolo/train/elastic.hpp"

namespace support {

/// --elastic and --record.
struct Elastic {
  bool is_on = false;
  std::string record;  ///< folder of a SampleRecord; empty: none
};

void add_elastic(CLI::App& app, Elastic& elastic);

/// Collective: kolo::run_elastic(). Where `elastic` is off, the same steps without it: the first rank that is
/// lost ends training.
std::uint64_t run_steps(const Elastic& elastic, kolo::Communicator& communicator,
                        const kolo::ElasticOptions& options, const kolo::ElasticSetup& setup,
                        const kolo::ElasticStep& step);

/// "3 ranks go on after step 7: why"
std::string describe(const kolo::ElasticChange& change);

}  // namespace support

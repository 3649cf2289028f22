// The command line of train_hybrid.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kolo/train/grid.hpp"
#include "tensor/options.hpp"

namespace hybrid {

struct Options {
  kolo::GridOptions grid;
  std::string schedule = "1f1b";
  int micro_batches = 4;  ///< of each replica's part of the batch
  tensor::Options model;  ///< its mode is "tensor"; text, steps, batch and optimizer count too
  std::string json;       ///< file; empty: none
};

/// Returns the exit code when the program is to end right away (--help, a wrong option).
std::optional<int> parse_options(int argc, char** argv, bool speak, Options& options);

}  // namespace hybrid

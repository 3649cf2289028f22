// The command line of train_language_model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "language_model/shape.hpp"
#include "support/run_steps.hpp"

namespace language_model {

struct Options {
  std::string text;  ///< file
  double minutes = 10;
  std::int64_t steps = 0;   ///< 0: as many as there are in `minutes`
  std::int64_t batch = 32;  ///< windows of text a step, over all ranks
  double learning_rate = 4e-3;
  double weight_decay = 0.1;
  double max_norm = 1;  ///< of all gradients
  Shape shape;
  std::string shard = "none";
  std::string precision = "auto";
  std::uint64_t seed = 1;
  std::string checkpoint;  ///< folder; empty: none
  std::string prompt = "ring all-reduce\n    n 1: ";
  std::int64_t generate = 400;  ///< bytes
  double temperature = 0.7;
  std::string output;  ///< folder; empty: write no files
  std::string beside;  ///< metrics.json of another run
  std::string progress = "auto";
  double require_bits = 0;  ///< per byte; 0: any
  std::int64_t timeline_steps = 40;
  support::Elastic elastic;
};

/// Returns the exit code when the program is to end right away (--help, a wrong option).
std::optional<int> parse_options(int argc, char** argv, bool speak, Options& options);

}  // namespace language_model

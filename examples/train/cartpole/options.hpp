// What train_cartpole is asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cartpole/objective.hpp"
#include "cartpole/rollout.hpp"

namespace cartpole {

struct Options {
  RolloutOptions rollout;
  ObjectiveOptions objective;
  std::int64_t width = 64;
  int epochs = 8;
  int minibatch = 32;  ///< samples of a rank
  double learning_rate = 1e-3;
  double max_norm = 0.5;
  std::int64_t steps = 400'000;
  std::int64_t updates = 0;
  double solved = 475;
  bool goes_on = false;
  std::uint64_t seed = 1;
  std::string communication = "kolo";
  std::string json;
};

/// As support::parse().
std::optional<int> parse_options(int argc, char** argv, bool speak, Options& options);

}  // namespace cartpole

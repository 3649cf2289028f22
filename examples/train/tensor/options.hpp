// The command line of train_tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tensor {

struct Options {
  std::string text;             ///< file
  std::string mode = "tensor";  ///< tensor, sequence, experts, branches, ulysses, ring
  std::int64_t steps = 100;
  std::int64_t batch = 8;  ///< windows of text a step, which all ranks read
  std::int64_t context = 64;
  std::int64_t width = 64;
  std::int64_t heads = 4;
  std::int64_t layers = 2;
  std::int64_t experts = 8;  ///< of a layer, or branches; what follows is of experts
  int chosen = 1;
  double capacity_factor = 0;
  double dropout = 0;
  double learning_rate = 3e-3;
  double max_norm = 1;  ///< of all gradients
  std::uint64_t seed = 1;
  std::string json;     ///< file; empty: none
  std::string profile;  ///< file; empty: train
  std::string progress = "auto";
};

/// Returns the exit code when the program is to end right away (--help, a wrong option).
std::optional<int> parse_options(int argc, char** argv, bool speak, Options& options);

}  // namespace tensor

// What the command line of train_pipeline says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipeline {

struct Options {
  std::string data;
  double epochs = 2;
  std::int64_t steps = 0;  ///< 0: as many as the epochs have
  std::int64_t limit = 0;  ///< images; 0: all
  std::int64_t batch = 256;
  std::int64_t width = 256;
  std::int64_t blocks = 6;
  double dropout = 0;
  double learning_rate = 0.05;
  std::uint64_t seed = 1;
  std::string schedule = "1f1b";
  int micro_batches = 4;
  int chunks = 1;
  int replicas = 1;
  std::vector<std::int64_t> borders;
  bool partitions = false;
  bool recompute = false;
  std::string profile;
  std::string json;
};

/// As support::parse().
std::optional<int> parse_options(int argc, char** argv, bool speak, Options& options);

}  // namespace pipeline

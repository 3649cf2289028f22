// Training that goes on whichever rank dies, and tells what it does in lines of JSON: the demo's program.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace words {

struct ElasticRun {
  at::Tensor text;  ///< of Words
  std::int64_t vocabulary = 0, width = 0;
  std::int64_t tokens = 0;  ///< a rank and a step
  std::int64_t negatives = 0;
  double learning_rate = 0;
  std::int64_t steps = 0;
  std::uint64_t seed = 0;
  /// Folder in which each process writes which samples it takes, before it computes with them. Empty: none.
  std::string record;
  /// "host:port" of each machine: where the store may be. Rank 0 serves it at the first one to begin with,
  /// and the lowest survivor once that is lost.
  std::vector<std::string> stores;
  std::string address = "127.0.0.1";  ///< of this machine
  std::string key;                    ///< the job's
  bool joins = false;                 ///< this process comes to a group that is there
};

/// Makes the steps with kolo::run_elastic(). Prints {"event": "group", ...} on each rank when a group begins,
/// and {"event": "step", ...} on its rank 0 after each step.
void train_elastically(const ElasticRun& run);

}  // namespace words

// Steps that are computed for real, as PyTorch's twin in pytorch_ddp.py does them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kolo/communicator.hpp"
#include "kolo/train/sharded_data_parallel.hpp"

namespace kolo::bench {

struct TrainOptions {
  std::string model = "mlp";
  std::int64_t batch = 64;
  int steps = 20;                   ///< that count
  bool in_bfloat16 = false;         ///< under kolo::Autocast
  bool uses_adam = false;           ///< in place of SGD with momentum
  std::optional<Shard> shard = {};  ///< nothing: DistributedDataParallel
};

/// Seconds a step (forward, backward, optimizer), of the slowest rank.
struct TrainResult {
  int ranks = 0;
  std::int64_t parameters = 0;
  double step = 0;  ///< median
  double step_mean = 0;
  double sent_bytes = 0;   ///< a step, of the rank that sends most
  double first_bytes = 0;  ///< resident memory of a rank before it has the model, at most
  double peak_bytes = 0;   ///< and at the peak of a step
};

/// Collective. Trains the workload of that name, one thread a rank; the first steps do not count. Throws
/// std::runtime_error where the ranks' parameters differ at the end.
TrainResult train(const TrainOptions& options, Communicator communicator);

}  // namespace kolo::bench

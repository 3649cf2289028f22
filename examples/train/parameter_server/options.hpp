// The command line of train_parameter_server.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "methods/parameter_server.hpp"

namespace parameter_server {

struct Options {
  int servers = 1;
  std::string rule = "synchronous";
  std::int64_t staleness = 0;
  std::string late = "drop";
  std::string push = "gradients";
  std::int64_t local_steps = 1;  ///< of a worker between two pushes of weights
  double epochs = 2;
  std::int64_t batch = 256;    ///< over all workers
  double learning_rate = 0.1;  ///< of an update with the gradients of a batch of 256
  double momentum = 0.9;
  double weight_decay = 5e-4;
  std::uint64_t seed = 1;
  std::int64_t limit = 0;  ///< training images; 0: all
  std::string data;
  double compute_ms = 0;  ///< of a step, slept in place of computing; 0: compute
  std::int64_t slow_worker = -1;
  double slow_ms = 0;      ///< of the slow worker's step
  double seconds = 20;     ///< of a run that sleeps
  std::string checkpoint;  ///< folder; empty: none
  std::uint64_t checkpoint_every = 50;
  int restarts = 0;  ///< of a server that was killed
  double reconnect_s = 60;
  std::string output;  ///< folder; empty: write no files
  std::string progress = "auto";
  double require_accuracy = 0;  ///< percent

  bool is_replayed() const { return compute_ms > 0; }
};

/// Returns the exit code when the program is to end right away (--help, a wrong option).
std::optional<int> parse_options(int argc, char** argv, bool speak, Options& options);

/// What the library is to do.
kolo::methods::ParameterServerOptions server_options(const Options& options);

}  // namespace parameter_server

// What a training run leaves behind, for the table, the picture and metrics.json.
#pragma once

#include <cstdint>

#include "support/communication.hpp"
#include "support/curve.hpp"

namespace fashion_mnist {

struct History {
  support::Curve losses;      ///< training loss, mean over a few steps and all ranks
  support::Curve rates;       ///< learning rates at these moments
  support::Curve accuracies;  ///< on the test images (or those held out), percent
  std::int64_t parameters = 0;
  std::int64_t steps = 0;
  std::int64_t images = 0;
  double training_seconds = 0;  ///< steps only
  double total_seconds = 0;     ///< with evaluation
  int ranks = 1;
  int signal = 0;  ///< that ended the run early; 0: none
  support::Communication communication;
  /// Means over the ranks. data_wait_per_step leaves the first step out.
  double data_wait_per_step = 0;  ///< seconds from a step's begin until its images are there
  double peak_bytes = 0;          ///< resident memory, at most
  double data_ready_seconds = 0;  ///< from the program's begin until the first batch is there
};

}  // namespace fashion_mnist

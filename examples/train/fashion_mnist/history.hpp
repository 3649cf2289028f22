// What a training run leaves behind, for the table, the picture and metrics.json.
#pragma once

#include <cstdint>

#include "support/communication.hpp"
#include "support/progress.hpp"

namespace fashion_mnist {

/// Evaluations are the accuracy on the test images (or those held out), percent.
struct History : support::Progress {
  std::int64_t parameters = 0;
  double total_seconds = 0;  ///< with evaluation
  int ranks = 1;             ///< of the last group
  support::Communication communication;
  /// Means over the ranks. data_wait_per_step leaves the first step out.
  double data_wait_per_step = 0;  ///< seconds from a step's begin until its images are there
  double peak_bytes = 0;          ///< resident memory, at most
  double data_ready_seconds = 0;  ///< from the program's begin until the first batch is there
};

}  // namespace fashion_mnist

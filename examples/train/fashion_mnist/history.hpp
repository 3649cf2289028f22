// What a training run leaves behind, for the table, the picture and metrics.json.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "kolo/train/communication_statistics.hpp"

namespace fashion_mnist {

inline double seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

struct Point {
  double epoch;
  double value;
  double seconds = 0;  ///< of training until then, without evaluation
};

struct History {
  std::vector<Point> losses;      ///< training loss, mean over a few steps and all ranks
  std::vector<Point> rates;       ///< learning rates at these moments
  std::vector<Point> accuracies;  ///< on the test images (or those held out), percent
  std::int64_t parameters = 0;
  std::int64_t steps = 0;
  std::int64_t images = 0;
  double training_seconds = 0;  ///< steps only
  double total_seconds = 0;     ///< with evaluation
  int ranks = 1;
  int signal = 0;                               ///< that ended the run early; 0: none
  kolo::CommunicationStatistics communication;  ///< of rank 0
  /// Means over the ranks, of a step. The first is left out: in it the ranks also agree on the order of
  /// buckets.
  double gradient_bytes_per_step = 0;
  double sent_bytes_per_step = 0;
  double data_wait_per_step = 0;  ///< seconds from a step's begin until its images are there
  double peak_bytes = 0;          ///< resident memory, at most
  double data_ready_seconds = 0;  ///< from the program's begin until the first batch is there
};

}  // namespace fashion_mnist

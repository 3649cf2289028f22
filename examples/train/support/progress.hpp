// How far a training has come: what a rank or a run that goes on must know of it.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/serialize/archive.h>

#include <cstdint>

#include "support/curve.hpp"

namespace support {

struct Progress {
  Curve losses;       ///< of training, mean over a few steps and all ranks
  Curve rates;        ///< learning rates at these moments, where the program keeps them
  Curve evaluations;  ///< on what is not trained on
  std::int64_t steps = 0;
  std::int64_t samples = 0;
  double training_seconds = 0;  ///< steps only
  double seconds_before = 0;    ///< the same before the last step
  int signal = 0;               ///< that ended the run early; 0: none

  /// Replaces the last one where that is of the same moment: a group of ranks that was lost may have been
  /// here.
  void add_evaluation(double at, double value);

  void save(torch::serialize::OutputArchive& archive) const;
  void load(torch::serialize::InputArchive& archive);
};

}  // namespace support

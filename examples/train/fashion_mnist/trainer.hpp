// The training loop: what a user of kolo writes.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "fashion_mnist/data.hpp"
#include "fashion_mnist/history.hpp"
#include "fashion_mnist/options.hpp"
#include "kolo/communicator.hpp"

namespace fashion_mnist {

struct Images {
  explicit Images(const Options& options);

  /// Read where they are needed, once: a sampler needs them at once.
  const Dataset& training();

  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  Dataset test;  ///< or those held out

 private:
  const Dataset& all();

  const Options& options_;
  std::optional<Dataset> all_, training_;
};

/// Collective. Trains for as long as `options` say or until a rank is interrupted; rank 0 reports on stdout.
/// All ranks return the same history but for times and communication. With the same global batch the losses
/// are those of a single rank, to rounding. `communicator` is the last group of ranks.
History train(const Options& options, Images& images, kolo::Communicator& communicator,
              std::shared_ptr<kolo::Timeline> timeline);

}  // namespace fashion_mnist

// The training loop of the language model.
#pragma once

#include <memory>

#include "kolo/communicator.hpp"
#include "language_model/history.hpp"
#include "language_model/options.hpp"

namespace language_model {

/// Collective. Trains for as long as `options` say or until a rank is interrupted; rank 0 reports on stdout.
/// With the same global batch and number of steps the losses are those of a single rank, to rounding. Throws
/// std::runtime_error, on all ranks, that names the rank whose text cannot be read or whose loss is infinite
/// or NaN; in the latter case the checkpoint is the one before.
History train(const Options& options, kolo::Communicator& communicator,
              std::shared_ptr<kolo::Timeline> timeline);

}  // namespace language_model

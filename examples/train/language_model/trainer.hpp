// The training loop of the language model.
#pragma once

#include <memory>

#include "kolo/communicator.hpp"
#include "language_model/history.hpp"
#include "language_model/options.hpp"
#include "support/corpus.hpp"

namespace language_model {

/// Collective. Trains for as long as `options` say or until a rank is interrupted; rank 0 reports on stdout.
/// With the same global batch and number of steps the losses are those of a single rank, to rounding. Throws
/// std::runtime_error, on all ranks, that names the rank whose loss is infinite or NaN; the checkpoint is
/// then the one before. `communicator` is the last group of ranks.
History train(const Options& options, const support::Corpus& corpus, kolo::Communicator& communicator,
              std::shared_ptr<kolo::Timeline> timeline);

}  // namespace language_model

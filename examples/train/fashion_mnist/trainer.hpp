// The training loop: what a user of kolo writes.
#pragma once

#include <memory>

#include "fashion_mnist/history.hpp"
#include "fashion_mnist/options.hpp"
#include "kolo/communicator.hpp"

namespace fashion_mnist {

/// Collective. Trains for as long as `options` say or until a rank is interrupted; rank 0 reports on stdout.
/// All ranks return the same history but for times and communication. With the same global batch the losses
/// are those of a single rank, to rounding.
History train(const Options& options, kolo::Communicator& communicator,
              std::shared_ptr<kolo::Timeline> timeline);

}  // namespace fashion_mnist

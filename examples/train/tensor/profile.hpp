// What the layers of the transformer cost, as a file.
#pragma once

#include "kolo/communicator.hpp"
#include "tensor/options.hpp"

namespace tensor {

/// Measures the layers on one rank and writes them as JSON, as train_pipeline does: "name", "batch", and
/// "layers" with "name", "parameters", "activation_bytes" (kept for backward), "output_bytes" (for the next
/// layer), "forward_ms" and "backward_ms" of each, and "tensor_sums": the bytes that ranks which divide the
/// layer sum in forward, and again in backward. Throws std::invalid_argument where there are more ranks, and
/// for modes other than tensor.
void write_profile(const Options& options, const kolo::Communicator& communicator);

}  // namespace tensor

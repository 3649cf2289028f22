// What the layers of a network cost, as a file and as borders of stages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kolo/communicator.hpp"
#include "pipeline/options.hpp"

namespace pipeline {

/// Measures the layers with `batch` samples, and writes them as JSON: "name", "batch", and "layers" with
/// "name", "parameters", "activation_bytes" (kept for backward), "output_bytes" (for the next layer),
/// "forward_ms" and "backward_ms" of each.
void write_profile(const std::string& path, const Options& options, std::int64_t batch);

/// Collective: the best borders of so many stages by the times that rank 0 measures with a micro-batch of
/// `samples`.
std::vector<std::int64_t> measured_borders(const Options& options, std::int64_t samples, int stages,
                                           kolo::Communicator& communicator);

}  // namespace pipeline

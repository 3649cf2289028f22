// kolo plan step: the predicted time of a training step with each way of averaging gradients.
#pragma once

#include <CLI/CLI.hpp>

namespace kolo::plan {

/// Adds the subcommand to `kolo plan`. Its callback prints, and throws InvalidArgument for wrong usage.
void add_step(CLI::App& plan);

}  // namespace kolo::plan

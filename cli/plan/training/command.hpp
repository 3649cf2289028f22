// kolo plan training: which way to train a model takes how long, and fits.
#pragma once

#include <CLI/CLI.hpp>

namespace kolo::plan {

/// Adds the subcommand to `kolo plan`. Its callback prints, and throws InvalidArgument for wrong usage.
void add_training(CLI::App& plan);

}  // namespace kolo::plan

// The subcommands of `kolo plan`.
#pragma once

#include <CLI/CLI.hpp>
#include <string_view>

namespace kolo::plan {

// Each adds itself to `kolo plan`. Its callback prints, and throws InvalidArgumentError for wrong usage.
void add_step(CLI::App& plan);
void add_training(CLI::App& plan);

/// Throws InvalidArgumentError for `kolo plan --json NAME`: an option of `plan` itself would have no effect.
void refuse_options_before(const CLI::App& plan, std::string_view name);

}  // namespace kolo::plan

// What the subcommands of `kolo plan` have in common.
#pragma once

#include <CLI/CLI.hpp>
#include <string_view>

namespace kolo::plan {

/// Throws InvalidArgument for `kolo plan --json NAME`: an option of `plan` itself would have no effect.
void refuse_options_before(const CLI::App& plan, std::string_view name);

}  // namespace kolo::plan

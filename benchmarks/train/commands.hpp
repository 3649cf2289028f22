// The subcommands of bench_train. Each adds itself to the command line, with its work as the callback.
#pragma once

#include <CLI/CLI.hpp>

namespace kolo::bench {

void add_record(CLI::App& app);

// Collective. `speaks`: this rank prints.
void add_replay(CLI::App& app, bool speaks);
void add_train(CLI::App& app, bool speaks);
void add_tensor(CLI::App& app, bool speaks);
void add_pipeline(CLI::App& app, bool speaks);
void add_hybrid(CLI::App& app, bool speaks);
void add_checkpoint(CLI::App& app, bool speaks);
void add_fingerprint(CLI::App& app, bool speaks);

}  // namespace kolo::bench

// The subcommands of kolo. Each adds itself to the command line, with its work as the callback.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace kolo::cli {

// A callback returns for exit code 0 and throws CLI::RuntimeError(code) for another one. What else it throws
// is reported by main() in one line: kolo::InvalidArgumentError as wrong usage (2), everything else as failed
// work (1).
void add_run(CLI::App& app, std::vector<std::string> program);
/// `arguments`: those of the whole command line.
void add_bench(CLI::App& app, std::vector<std::string> arguments);
void add_plan(CLI::App& app);
void add_tune(CLI::App& app);
void add_doctor(CLI::App& app);
void add_explain(CLI::App& app);
void add_list(CLI::App& app);
void add_check(CLI::App& app);
void add_precision(CLI::App& app);
void add_draw(CLI::App& app);
void add_trace(CLI::App& app);
void add_help(CLI::App& app);
void add_version(CLI::App& app);
void add_completion(CLI::App& app);
void add_man(CLI::App& app);  // hidden: for the build

/// Takes the program and its arguments off the arguments of `kolo run`; nothing for another subcommand. They
/// are not for CLI11 to read: it would take "[a,b]" apart.
std::vector<std::string> take_program(std::vector<std::string>& arguments);

/// The commands directly below `app`, without hidden ones.
std::vector<std::string> command_names(const CLI::App& app);

/// What `kolo` alone prints.
std::string first_page(const CLI::App& app);

}  // namespace kolo::cli

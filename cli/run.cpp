// kolo run: starts N ranks of a program on this machine.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "commands.hpp"
#include "launcher.hpp"

namespace kolo::cli {
namespace {

constexpr const char* kFooter = R"(Each rank finds in its environment:
  RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE    its place, as torchrun sets it
  MASTER_ADDR, MASTER_PORT                          an address and a port free for the program's own use
  KOLO_STORE, KOLO_STORE_SERVED, KOLO_KEY           where kolo's ranks meet, and the job's secret
  OMP_NUM_THREADS=1                                 when it was not set and N > 1: otherwise every rank would
                                                    start a thread for every core, N times too many
Its standard input is empty.

The first rank that fails stops all the others (SIGTERM, after the grace SIGKILL). SIGINT, SIGTERM, SIGHUP,
SIGUSR1 and SIGUSR2 are passed on; a second SIGINT kills at once. No process of the job survives kolo run.

Examples:
  kolo run -n 4 ./train --epochs 3
  kolo run -n 2 --no-prefix -- python3 train.py

Exit code: 0 when all ranks succeeded; else that of the rank that failed first, or 128 + its signal;
127 when the program cannot be started; 2 for wrong usage.)";

struct RunArguments {
  LaunchOptions options;
  bool no_prefix = false;
  double grace = 5;
};

}  // namespace

std::vector<std::string> take_program(std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] != "run") return {};
  std::size_t at = 1;
  while (at < arguments.size() && arguments[at].starts_with('-') && arguments[at] != "--") {
    const bool has_value = arguments[at] == "-n" || arguments[at] == "--ranks" || arguments[at] == "--grace";
    at = std::min(at + (has_value ? 2 : 1), arguments.size());
  }
  const bool marked = at < arguments.size() && arguments[at] == "--";
  const auto begin = arguments.begin() + static_cast<std::ptrdiff_t>(at);
  std::vector<std::string> program(begin + (marked ? 1 : 0), arguments.end());
  arguments.erase(begin, arguments.end());
  return program;
}

void add_run(CLI::App& app, std::vector<std::string> program) {
  CLI::App* run = app.add_subcommand("run", "Start N ranks of a program: kolo run -n N [--] PROGRAM ARGS");
  auto arguments = std::make_shared<RunArguments>();
  arguments->options.command = std::move(program);
  run->add_option("-n,--ranks", arguments->options.ranks, "How many ranks, on this machine")
      ->required()
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  run->add_flag("--no-prefix", arguments->no_prefix, "Do not begin the ranks' lines with [rank]");
  run->add_option("--grace", arguments->grace, "Seconds between SIGTERM and SIGKILL")
      ->check(CLI::Range(0.0, 86'400.0))
      ->capture_default_str()
      ->type_name("SECONDS");
  run->footer(kFooter);
  run->callback([arguments] {
    if (arguments->options.command.empty()) throw CLI::RequiredError("PROGRAM");
    arguments->options.prefix_output = !arguments->no_prefix;
    arguments->options.grace = std::chrono::nanoseconds(static_cast<std::int64_t>(arguments->grace * 1e9));
    if (const int status = launch_ranks(arguments->options).status(); status != 0) {
      throw CLI::RuntimeError(status);
    }
  });
}

}  // namespace kolo::cli

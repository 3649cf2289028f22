// kolo run: starts the ranks of a program on this machine, or on several hosts over ssh.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "commands.hpp"
#include "launch/launcher.hpp"

namespace kolo::cli {
namespace {

constexpr const char* kRunFooter = R"(Each rank finds in its environment:
  RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE    its place, as torchrun sets it
  MASTER_ADDR, MASTER_PORT                          an address and a port free for the program's own use
  KOLO_STORE, KOLO_STORE_SERVED, KOLO_KEY           where kolo's ranks meet, and the job's secret
  OMP_NUM_THREADS=1                                 when it was not set and N > 1: otherwise every rank would
                                                    start a thread for every core, N times too many
Its standard input is empty. Its output is a terminal where that of kolo run is one.

The first rank that fails stops all the others (SIGTERM, after the grace SIGKILL); with --keep-going it does not,
so that programs that call shrink() can go on without it. SIGINT, SIGTERM, SIGHUP,
SIGUSR1 and SIGUSR2 are passed on; a second SIGINT kills at once. No process of the job survives kolo run.

Over several hosts:
  Your ssh must log in without a password (try: ssh HOST true). kolo, the program and the working folder must
  be there under the same paths; --remote-kolo names another place for kolo. Ranks are numbered host by host.
  They get the environment of a login there, KOLO_* and OMP_NUM_THREADS of this one, and what -x names. The
  hosts must reach this one at a TCP port that kolo chooses; it says where if they do not. The job's key goes
  through ssh, never on a command line. 'kolo doctor --hosts a,b' tells what stands in the way.

Examples:
  kolo run -n 4 ./train --epochs 3
  kolo run -n 2 --no-prefix -- python3 train.py
  kolo run -n 4 --keep-going ./train               those that are left shrink() and go on
  KOLO_TRANSPORTS=tcp kolo run -n 4 ./train        over loopback instead of shared memory
  kolo run --hosts a:4,b:4 -- ./train              eight ranks; [fd00::2]:4 for an IPv6 address
  kolo run --hosts-file hosts -x OMP_PROC_BIND -- ./train      a line a host: "me@b 4"
  kolo run --hosts a,b --ssh "ssh -p 2222" -- ./train

Exit code: 0 when all ranks succeeded, with --keep-going when some did; else that of the rank that failed first,
or 128 + its signal;
127 when the program cannot be started or a host not be reached, 255 when a host is lost; 2 for wrong usage.)";

bool takes_value(std::string_view option) {
  constexpr std::array<std::string_view, 9> kWithValue = {
      "-n",    "--ranks",       "--grace",         "--hosts", "--hosts-file",
      "--ssh", "--remote-kolo", "--store-address", "-x"};
  return std::find(kWithValue.begin(), kWithValue.end(), option) != kWithValue.end();
}

int run(const LaunchOptions& options) {
  if (options.remote.hosts.empty() == (options.ranks == 0)) {
    throw CLI::RequiredError("either --ranks, or --hosts or --hosts-file,");
  }
  if (options.command.empty() && options.job_size == 0) throw CLI::RequiredError("PROGRAM");
  return launch_ranks(options).status();
}

}  // namespace

std::vector<std::string> take_program(std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] != "run") return {};
  std::size_t at = 1;
  while (at < arguments.size() && arguments[at].starts_with('-') && arguments[at] != "--") {
    at = std::min(at + (takes_value(arguments[at]) ? 2 : 1), arguments.size());
  }
  const bool marked = at < arguments.size() && arguments[at] == "--";
  const auto begin = arguments.begin() + static_cast<std::ptrdiff_t>(at);
  std::vector<std::string> program(begin + (marked ? 1 : 0), arguments.end());
  arguments.erase(begin, arguments.end());
  return program;
}

void add_run(CLI::App& app, std::vector<std::string> program) {
  CLI::App* run_command =
      app.add_subcommand("run", "Start ranks of a program: kolo run -n N [--] PROGRAM ARGS, or over --hosts");
  auto options = std::make_shared<LaunchOptions>();
  options->command = std::move(program);
  options->ranks = 0;
  run_command->add_option("-n,--ranks", options->ranks, "How many ranks, on this machine")
      ->check(CLI::Range(1, kLargestJob))
      ->type_name("N");
  options->remote.add_to(*run_command);
  run_command->add_flag_callback(
      "--no-prefix", [options] { options->prefix_output = false; },
      "Do not begin the ranks' lines with [rank]");
  run_command->add_flag("--keep-going", options->keep_going,
                        "A rank that fails does not stop the other ranks");
  run_command
      ->add_option_function<double>(
          "--grace",
          [options](double seconds) {
            options->grace = std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
          },
          "Seconds between SIGTERM and SIGKILL")
      ->check(CLI::Range(0.0, 86'400.0))
      ->check([](const std::string& text) {  // comparisons with nan are false
        double seconds = 0;
        return CLI::detail::lexical_cast(text, seconds) && !std::isnan(seconds) ? "" : text + " is no time";
      })
      ->default_str("5")
      ->type_name("SECONDS");
  // Hidden: for the launcher of a job over hosts.
  run_command->add_option("--job-size", options->job_size)->check(CLI::Range(1, kLargestJob))->group("");
  run_command->add_option("--first-rank", options->first_rank)->check(CLI::Range(0, kLargestJob))->group("");
  run_command->footer(kRunFooter);
  run_command->callback([options] {
    if (const int status = run(*options); status != 0) throw CLI::RuntimeError(status);
  });
}

}  // namespace kolo::cli

// kolo run: starts the ranks of a program on this machine, or on several hosts over ssh.

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "commands.hpp"
#include "launch/launcher.hpp"
#include "options.hpp"
#include "text/refuse.hpp"

namespace kolo::cli {
namespace {

constexpr const char* kRunFooter = R"(Examples:
  kolo run -n 4 -- ./train --epochs 3         four ranks on this machine
  kolo run -n auto -- ./train                 a rank for each core
  kolo run -n 4 --keep-going -- ./train       survivors shrink() and go on
  kolo run -n 4 -x OMP_NUM_THREADS=2 -- ./train
  kolo run -n 2 --no-prefix -- ./train > log      lines without [rank]
  KOLO_TRANSPORTS=tcp kolo run -n 4 -- ./train    over loopback TCP
  kolo run --hosts a:4,b:4 -- ./train         eight ranks; IPv6: [fd00::2]:4
  kolo run --hosts-file hosts -x OMP_PROC_BIND -- ./train
  kolo run --hosts a,b --ssh "ssh -p 2222" -- ./train
  kolo run --elastic 2:8 -- ./train           goes on while two live
  kolo run --elastic 2:8 --hosts-file hosts -- ./train

Environment:
  RANK, WORLD_SIZE                  the rank's number, and how many there are
  LOCAL_RANK, LOCAL_WORLD_SIZE      the same on its host, as torchrun sets it
  MASTER_ADDR, MASTER_PORT          an address and a port for the program's use
  KOLO_STORE, KOLO_STORE_SERVED     where kolo's ranks meet
  KOLO_KEY                          the job's secret
  OMP_NUM_THREADS=1                 with several ranks a host, unless set: else
                                    each would start a thread for every core

Standard input is empty. Output is a terminal where that of kolo run is one.
When a rank fails, the other ranks have a second to report that they lost it.
Then they are stopped: SIGTERM, and SIGKILL after --grace.
SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are passed on; a second SIGINT
kills at once. No process of the job survives kolo.

With --elastic a process that fails starts again, half a second later, then 1,
2, 4, ... 30 seconds: as a newcomer, which the group takes in by regroup(). A
file of hosts is read again when it changes, --hosts-command runs every five
seconds: a host that comes gets processes, those of one that is gone get
SIGTERM. When a process ends with code 0, none is started again. Fewer than
LEAST end the job, and so does a failure before the first group has met.

With --hosts, ssh must log in without a password (try: ssh HOST true). kolo, the
program and the working folder must have the same paths there. Ranks are
numbered host by host. They get the environment of a login, KOLO_* and
OMP_NUM_THREADS of this one, and what -x names. The hosts must reach this one at
a TCP port that kolo chooses. The job's key goes through ssh, never on a command
line.
'kolo doctor --hosts a,b' finds what stands in the way.

Exit code: that of the rank that failed first (last, if the job is elastic);
127 when the program cannot be started, or a host cannot be reached; 255 when a
host was lost ('kolo help').)";

bool takes_value(std::string_view option) {
  constexpr std::array<std::string_view, 13> kWithValue = {
      "-n",           "-np",   "--ranks",       "--grace",         "--hosts", "--elastic",      "--restarts",
      "--hosts-file", "--ssh", "--remote-kolo", "--store-address", "-x",      "--hosts-command"};
  return std::find(kWithValue.begin(), kWithValue.end(), option) != kWithValue.end();
}

ElasticOptions parse_elastic(const std::string& text, ElasticOptions options) {
  static const std::regex kForm(R"((\d{1,4}):(\d{1,4}))");
  std::smatch found;
  if (std::regex_match(text, found, kForm)) {
    options.least = std::stoi(found[1]);
    options.most = std::stoi(found[2]);
  }
  if (options.least < 1 || options.most < options.least || options.most > kLargestJob)
    refuse("--elastic \"{}\": write LEAST:MOST, as 2:8; both from 1 to {}, and LEAST no more than MOST", text,
           kLargestJob);
  return options;
}

/// Completes the options of an elastic job, and refuses those that contradict it.
void check_elastic(LaunchOptions& options) {
  const ElasticOptions& elastic = options.elastic;
  if (options.keep_going)
    refuse("--elastic and --keep-going exclude each other: an elastic job goes on by itself");
  if (options.job_size > 0) return;
  int slots = 0;
  for (const HostSlots& host : options.remote.hosts) slots += host.slots;
  if (slots > 0 && slots < elastic.least)
    refuse("the hosts have room for {} ranks, and --elastic asks for {} at least", slots, elastic.least);
  if (slots > 0) return;
  if (options.ranks == 0) options.ranks = elastic.most;
  if (options.ranks < elastic.least || options.ranks > elastic.most)
    refuse("--ranks {} is not from {} to {}, as --elastic says", options.ranks, elastic.least, elastic.most);
}

int run(LaunchOptions options) {
  if (options.elastic.is_set()) check_elastic(options);
  if (!options.remote.hosts.empty() && options.ranks != 0) {
    refuse("--ranks and --hosts exclude each other: --hosts a:2 starts 2 ranks on a");
  }
  if (options.remote.hosts.empty() && options.ranks == 0) {
    refuse("kolo run needs --ranks N, or --hosts or --hosts-file (kolo run --help tells more)");
  }
  if (options.command.empty() && options.job_size == 0) {
    refuse("kolo run needs a PROGRAM after its options (kolo run --help tells more)");
  }
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
  CLI::App* run_command = app.add_subcommand("run", "Start the ranks of a program, here or on other hosts");
  auto options = std::make_shared<LaunchOptions>();
  options->command = std::move(program);
  options->ranks = 0;
  accept_auto(add_value(*run_command, "-n,--ranks", options->ranks, "N",
                        "How many ranks, on this machine; auto: one for each core; also -np")
                  ->check(CLI::Range(1, kLargestJob)));
  run_command->add_flag_callback(
      "--no-prefix", [options] { options->prefix_output = false; },
      "Do not begin the ranks' lines with [rank]");
  run_command->add_flag("--keep-going", options->keep_going,
                        "A rank that fails does not stop the other ranks; success if one rank succeeds");
  run_command
      ->add_option_function<double>(
          "--grace",
          [options](double seconds) {
            options->grace = std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
          },
          "Time between SIGTERM and SIGKILL")
      ->check(CLI::Range(0.0, 86'400.0))
      ->check([](const std::string& text) {  // comparisons with nan are false
        double seconds = 0;
        return CLI::detail::lexical_cast(text, seconds) && !std::isnan(seconds) ? "" : text + " is no time";
      })
      ->default_str("5")
      ->type_name("SECONDS");
  run_command
      ->add_option_function<std::string>(
          "--elastic",
          [options](const std::string& text) { options->elastic = parse_elastic(text, options->elastic); },
          "Goes on while LEAST processes live, with at most MOST (the default of --ranks); starts those that "
          "fail again")
      ->type_name("LEAST:MOST");
  add_value(*run_command, "--restarts", options->elastic.restarts, "N",
            "How often at most a process, or a host, is started again in ten minutes")
      ->check(CLI::Range(0, 1'000'000));
  options->remote.add_to(*run_command);
  // Hidden: for the launcher of a job over hosts.
  run_command->add_option("--job-size", options->job_size)->check(CLI::Range(1, kLargestJob))->group("");
  run_command->add_option("--first-rank", options->first_rank)->check(CLI::Range(0, kLargestJob))->group("");
  run_command->footer(kRunFooter);
  run_command->callback([options] {
    if (const int status = run(*options); status != 0) throw CLI::RuntimeError(status);
  });
}

}  // namespace kolo::cli

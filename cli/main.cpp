// The kolo command line: picks the subcommand, and turns errors into one line and an exit code.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "commands.hpp"
#include "kolo/error.hpp"
#include "kolo/version.hpp"

namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

constexpr const char* kFooter = R"(Examples:
  kolo run -n 4 ./train --epochs 3          four ranks of ./train on this machine
  kolo run --hosts a:4,b:4 -- ./train       eight, on two hosts over ssh
  kolo doctor --hosts a,b                   what keeps their ranks from working together
  kolo bench all_reduce --ranks 4           how fast they sum, size by size
  kolo tune                                 measures this machine, so that kolo chooses well
  kolo plan all_reduce --bytes 1M           which algorithm it would be, and what each would take
  kolo plan step --help                     what a server, a driver and a ring make of a training step
  kolo check all_reduce --ranks 1:64        proves every algorithm right, and counts its cost
  kolo precision ring --ranks 64            how far its sum is from the exact one
  kolo draw ring --ranks 8                  a web page that shows each step
  kolo trace merge t/*.json -o job.json     the ranks' timelines in one, and who waited for whom

Exit codes:
  0  success
  1  the work failed (kolo run: the exit code of the rank that failed first, or 128 + its signal;
     127 when the program cannot be started)
  2  wrong usage

kolo COMMAND --help tells more.)";

int report(const char* what, int code) {
  std::fprintf(stderr, "kolo: %s\n", what);
  return code;
}

int parse(CLI::App& app, std::vector<std::string> arguments) {
  const std::string first = arguments.empty() ? "" : arguments.front();
  std::reverse(arguments.begin(), arguments.end());  // CLI11 expects reversed arguments
  try {
    app.parse(std::move(arguments));
    return 0;
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    std::string command = "kolo";
    std::string what = error.what();
    for (auto chosen = app.get_subcommands(); !chosen.empty(); chosen = chosen.front()->get_subcommands())
      command += " " + chosen.front()->get_name();
    if (app.get_subcommands().empty() && !first.empty() && !first.starts_with('-')) {
      what = "\"" + first + "\" is not a command";
    }
    return report((what + " (" + command + " --help tells more)").c_str(), kUsage);
  }
}

int run(std::vector<std::string> arguments) {
  CLI::App app("kolo: collective communication and data-parallel training for CPUs and ordinary networks",
               "kolo");
  app.set_version_flag("--version", std::string("kolo ") + kolo::version());
  app.footer(kFooter);
  app.require_subcommand(1);
  kolo::cli::add_run(app, kolo::cli::take_program(arguments));
  kolo::cli::add_bench(app, arguments);
  kolo::cli::add_plan(app);
  kolo::cli::add_tune(app);
  kolo::cli::add_doctor(app);
  kolo::cli::add_check(app);
  kolo::cli::add_precision(app);
  kolo::cli::add_draw(app);
  kolo::cli::add_trace(app);
  kolo::cli::add_docs(app);
  return parse(app, std::move(arguments));
}

/// A full disk shows only when the buffered output is flushed.
int flushed(int code) {
  const bool arrived = std::fflush(stdout) == 0;
  const std::string why = arrived ? "" : std::string(": ") + std::strerror(errno);
  if ((arrived && std::ferror(stdout) == 0) || code != 0) return code;
  return report(("cannot write standard output" + why).c_str(), kFailed);
}

}  // namespace

int main(int argc, char** argv) {
  int code = 0;
  try {
    code = run({argv + 1, argv + argc});
  } catch (const kolo::InvalidArgument& error) {
    code = report(error.what(), kUsage);
  } catch (const std::exception& error) {
    code = report(error.what(), kFailed);
  }
  return flushed(code);
}

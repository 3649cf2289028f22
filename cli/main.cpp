// The kolo command line: picks the subcommand, and turns errors into one line and an exit code.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/similar.hpp"
#include "commands.hpp"
#include "help/outline.hpp"
#include "help/pages.hpp"
#include "kolo/error.hpp"
#include "kolo/trouble.hpp"
#include "kolo/version.hpp"
#include "options.hpp"
#include "text/refuse.hpp"

namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

constexpr const char* kPurpose =
    "kolo: collective communication and data-parallel training for CPUs and ordinary networks. This program "
    "starts, measures, explains and checks jobs that use it.";

constexpr const char* kFooter = R"(Examples:
  kolo run -n 4 -- ./train               four ranks of ./train on this machine
  kolo run --hosts a:4,b:4 -- ./train    eight, on two hosts over ssh
  kolo doctor --hosts a,b                what keeps their ranks from working
  kolo explain K104                      what an error that ends so means
  kolo bench all_reduce --ranks 4        how fast they sum, size by size
  kolo tune                              measures this machine, once
  kolo plan all_reduce --bytes 1M        which algorithm a call would run
  kolo list all_reduce                   the algorithms there are
  kolo draw ring --ranks 8               a web page that shows each step
  kolo check all_reduce --ranks 1:64     proves every algorithm right
  kolo precision ring --ranks 64         how far its sum is from the exact one
  kolo trace merge t/*.json -o job.json  the timelines of all ranks in one

Exit codes:
  0      success
  1      the work failed: a wrong result (bench, tune, check, precision), a
         problem (doctor), or a file that cannot be written
  2      wrong usage
  127    the program cannot be started, or a host cannot be reached (run)
  128+N  signal N ended a rank, or kolo
  255    a host was lost (run)
  other  that of the rank that failed first (run)

Sizes are in bytes; K, M, G are times 1024 (as KiB), and KB, MB, GB times 1000.
--json writes for programs: to the FILE after it, or in place of the text.)";

int report(const std::string& what, int code) {
  const std::string text = kolo::with_code(what, code == kUsage ? kolo::cli::kWrongUsage : "");
  std::fprintf(stderr, "kolo: %s\n", text.c_str());
  return code;
}

/// `word` stands where a command should.
std::string unknown_command(const CLI::App& app, const std::string& word) {
  const std::string what = fmt::format("there is no command '{}'", word);
  const std::string meant = kolo::did_you_mean(word, kolo::cli::command_names(app));
  if (!meant.empty()) return what + meant;
  const std::vector<std::string> calls = kolo::cli::known_values("COLLECTIVE");
  const std::vector<std::string_view> names(calls.begin(), calls.end());
  const auto collectives = kolo::similar_names(word, names);
  return collectives.empty() ? what
                             : fmt::format("{}; did you mean 'kolo bench {}'?", what, collectives.front());
}

/// The arguments that `command` does not know.
std::string unknown_argument(const CLI::App& command, const std::string& name, const std::string& argument) {
  if (!argument.starts_with('-')) return fmt::format("'{}' is one argument too many for {}", argument, name);
  std::vector<std::string> known;
  for (const kolo::cli::OptionOutline& option : kolo::cli::outline_of(command).options)
    known.insert(known.end(), option.names.begin(), option.names.end());
  const std::string option = argument.substr(0, argument.find('='));
  return fmt::format("{} has no option {}{}", name, option, kolo::did_you_mean(option, known));
}

std::string explain(const CLI::App& app, const CLI::ParseError& error, const std::string& first) {
  const CLI::App* command = &app;
  std::string name = "kolo";
  for (auto chosen = app.get_subcommands(); !chosen.empty(); chosen = command->get_subcommands()) {
    command = chosen.front();
    name += " " + command->get_name();
  }
  std::string what = error.what();
  if (command == &app && !first.empty() && !first.starts_with('-')) {
    what = unknown_command(app, first);
  } else if (const auto rest = app.remaining(true);
             dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !rest.empty()) {
    what = unknown_argument(*command, name, rest.front());
  } else if (const auto below = command->get_subcommands({});
             command != &app && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr &&
             !below.empty()) {
    what = fmt::format("{} needs a command: {}", name, below.front()->get_name());
  }
  return fmt::format("{} ({} --help tells more)", what, name);
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
    return report(explain(app, error, first), kUsage);
  }
}

int run(std::vector<std::string> arguments) {
  CLI::App app(kPurpose, "kolo");
  app.formatter(std::make_shared<kolo::cli::HelpFormatter>());
  app.set_help_flag("-h,--help", "Show this page");
  app.set_version_flag("--version", std::string("kolo ") + kolo::version(), "Show the version of kolo");
  app.footer(kFooter);
  app.require_subcommand(1);
  const std::vector<std::string> typed = arguments;
  kolo::cli::add_run(app, kolo::cli::take_program(arguments));
  kolo::cli::normalize(arguments);
  kolo::cli::add_doctor(app);
  kolo::cli::add_explain(app);
  kolo::cli::add_bench(app, arguments);
  kolo::cli::add_tune(app);
  kolo::cli::add_plan(app);
  kolo::cli::add_list(app);
  kolo::cli::add_draw(app);
  kolo::cli::add_check(app);
  kolo::cli::add_precision(app);
  kolo::cli::add_trace(app);
  kolo::cli::add_completion(app);
  kolo::cli::add_version(app);
  kolo::cli::add_help(app);
  kolo::cli::add_man(app);
  if (typed.empty()) {
    fmt::print("{}", kolo::cli::first_page(app));
    return 0;
  }
  // Scripts of shells ask. The words are not for CLI11 to read.
  if (typed.front() == "complete") {
    fmt::print("{}", kolo::cli::completions(kolo::cli::outline_of(app), {typed.begin() + 1, typed.end()}));
    return 0;
  }
  return parse(app, std::move(arguments));
}

/// A full disk shows only when the buffered output is flushed.
int flushed(int code) {
  const bool arrived = std::fflush(stdout) == 0;
  const std::string why = arrived ? "" : std::string(": ") + std::strerror(errno);
  if ((arrived && std::ferror(stdout) == 0) || code != 0) return code;
  return report("cannot write standard output" + why, kFailed);
}

}  // namespace

int main(int argc, char** argv) {
  int code = 0;
  try {
    code = run({argv + 1, argv + argc});
  } catch (const kolo::InvalidArgumentError& error) {
    code = report(error.what(), kUsage);
  } catch (const std::exception& error) {
    code = report(error.what(), kFailed);
  }
  return flushed(code);
}

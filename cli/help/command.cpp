// kolo help, kolo version, kolo completion; kolo man, for the build.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/similar.hpp"
#include "commands.hpp"
#include "help/pages.hpp"
#include "kolo/version.hpp"
#include "text/refuse.hpp"

namespace kolo::cli {
namespace {

constexpr const char* kFirstPage = R"(
Three to begin with:
  kolo run -n 4 -- ./train       four ranks of your program on this machine
  kolo bench all_reduce          how fast this machine's cores sum their data
  kolo draw ring --ranks 4       a page that shows an algorithm step by step

'kolo help COMMAND' tells more about one, 'kolo help' about all of them.
)";

constexpr const char* kHelpFooter = R"(Examples:
  kolo help                 all commands, with examples and exit codes
  kolo help run             one command; the same as kolo run --help
  kolo help plan step       a command of a command)";

constexpr const char* kCompletionFooter = R"(Examples:
  source <(kolo completion bash)                 this shell; in ~/.bashrc: all
  source <(kolo completion zsh)                  in ~/.zshrc, after compinit
  kolo completion fish > ~/.config/fish/completions/kolo.fish

The package kolo-tools installs all three.)";

/// The command below `app` that the words name.
const CLI::App& command_of(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* found = &app;
  for (const std::string& word : words) {
    const std::vector<std::string> names = command_names(*found);
    if (std::ranges::find(names, word) == names.end()) {
      refuse("{} has no command '{}'{}", outline_of(*found).name, word, did_you_mean(word, names));
    }
    found = found->get_subcommand_ptr(word).get();
  }
  return *found;
}

}  // namespace

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({}))
    if (!command->get_group().empty()) names.push_back(command->get_name());
  return names;
}

std::string first_page(const CLI::App& app) {
  Outline outline = outline_of(app);
  outline.options.clear();
  outline.usage = "kolo COMMAND [OPTIONS]";
  outline.footer.clear();
  return help_page(outline) + kFirstPage;
}

void add_help(CLI::App& app) {
  CLI::App* help = app.add_subcommand("help", "Show the help of kolo or of a command");
  const auto words = std::make_shared<std::vector<std::string>>();
  help->footer(kHelpFooter);
  // The names are no check: command_of() knows the commands of commands, too, and suggests.
  const std::string names = fmt::format("{{{}}}", fmt::join(command_names(app), ","));
  help->add_option("COMMAND", *words, "Its name (default: kolo itself)")
      ->check(CLI::Validator([](std::string&) { return std::string(); }, names));
  help->callback([&app, words] { fmt::print("{}", help_page(outline_of(command_of(app, *words)))); });
}

void add_version(CLI::App& app) {
  CLI::App* version = app.add_subcommand("version", "Show the version of kolo");
  version->footer("Example:\n  kolo version              the same as kolo --version");
  version->callback([] { fmt::print("kolo {}\n", kolo::version()); });
}

void add_completion(CLI::App& app) {
  CLI::App* completion = app.add_subcommand("completion", "Write a script that completes kolo's commands");
  const auto shell = std::make_shared<std::string>();
  completion->footer(kCompletionFooter);
  completion->add_option("SHELL", *shell, "The shell")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->callback([shell] {
    fmt::print("{}", *shell == "bash" ? kCompletionBash : *shell == "zsh" ? kCompletionZsh : kCompletionFish);
  });
}

void add_man(CLI::App& app) {
  CLI::App* man = app.add_subcommand("man", "Write the manual pages")->group("");
  const auto folder = std::make_shared<std::string>();
  man->add_option("FOLDER", *folder, "Where to")->required();
  man->callback([&app, folder] { write_man_pages(outline_of(app), *folder); });
}

}  // namespace kolo::cli

#include <CLI/CLI.hpp>

#include "launch/launcher.hpp"
#include "options.hpp"

namespace kolo::cli {

void SshOptions::add_to(CLI::App& command) {
  const auto add = [&](const char* names, auto& target, const char* type, const char* what) {
    return add_value(command, names, target, type, what)->group("Several hosts");
  };
  auto* list = command.add_option_function<std::string>(
      "--hosts", [this](const std::string& text) { hosts = parse_hosts(text); },
      "Hosts on which to start ranks over ssh, and how many on each: a:4,me@b:4");
  list->type_name("LIST")->group("Several hosts");
  auto* file = command.add_option_function<std::string>(
      "--hosts-file", [this](const std::string& path) { hosts = read_hosts_file(hosts_file = path); },
      "The same from a file, a line a host: \"me@b 4\"; # starts a comment");
  file->type_name("FILE")->group("Several hosts")->excludes(list);
  command
      .add_option_function<std::string>(
          "--hosts-command",
          [this](const std::string& text) { hosts = run_hosts_command(hosts_command = text); },
          "The same from the output of a shell command")
      ->type_name("COMMAND")
      ->group("Several hosts")
      ->excludes(list)
      ->excludes(file);
  add("--ssh", ssh, "COMMAND", "The command that logs in there, with its options");
  add("--remote-kolo", remote_kolo, "PATH", "Where kolo is there (default: the same path as here)");
  add("--store-address", store_address, "ADDRESS",
      "Where they reach this machine (default: its address on the route to them)");
  add_value(command, "-x", variables, "NAME[=VALUE]",
            "A variable to set for the ranks, or to pass on to other hosts; may be repeated")
      ->allow_extra_args(false)
      ->check([](const std::string& text) { return text.empty() || text[0] == '=' ? "no name" : ""; });
}

}  // namespace kolo::cli

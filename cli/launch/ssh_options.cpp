#include <CLI/CLI.hpp>

#include "launch/launcher.hpp"

namespace kolo::cli {

void SshOptions::add_to(CLI::App& command) {
  const auto add = [&](CLI::Option* option, const char* type) {
    return option->type_name(type)->group("Several hosts");
  };
  auto* list = add(command.add_option_function<std::string>(
                       "--hosts", [this](const std::string& text) { hosts = parse_hosts(text); },
                       "Hosts on which to start ranks over ssh, and how many on each: a:4,me@b:4"),
                   "LIST");
  add(command.add_option_function<std::string>(
          "--hosts-file", [this](const std::string& path) { hosts = read_hosts_file(path); },
          "The same from a file, a line a host: \"me@b 4\"; # starts a comment"),
      "FILE")
      ->excludes(list);
  add(command.add_option("--ssh", ssh, "The command that logs in there, with its options")
          ->capture_default_str(),
      "COMMAND");
  add(command.add_option("--remote-kolo", remote_kolo,
                         "Where kolo is there (default: the same path as here)"),
      "PATH");
  add(command.add_option("--store-address", store_address,
                         "Where they reach this machine (default: its address on the route to them)"),
      "ADDRESS");
  add(command.add_option("-x", variables, "A variable to pass on, or to set, for the ranks; may be repeated"),
      "NAME[=VALUE]")
      ->allow_extra_args(false)
      ->check([](const std::string& text) { return text.empty() || text[0] == '=' ? "no name" : ""; });
}

}  // namespace kolo::cli

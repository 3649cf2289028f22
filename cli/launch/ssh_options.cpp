#include <CLI/CLI.hpp>

#include "launch/launcher.hpp"

namespace kolo::cli {

void SshOptions::add_to(CLI::App& command) {
  const auto add = [&](CLI::Option* option, const char* type) {
    return option->type_name(type)->group("Several hosts");
  };
  auto* list = add(command.add_option_function<std::string>(
                       "--hosts", [this](const std::string& text) { hosts = parse_hosts(text); },
                       "Hosts to start ranks on over ssh, with ranks each: a:4,me@b:4"),
                   "LIST");
  add(command.add_option_function<std::string>(
          "--hosts-file", [this](const std::string& path) { hosts = read_hosts_file(path); },
          "The same from a file, a line a host: \"b 4\""),
      "FILE")
      ->excludes(list);
  add(command.add_option("--ssh", ssh, "How to reach them, with options")->capture_default_str(), "COMMAND");
  add(command.add_option("--remote-kolo", remote_kolo, "Where kolo is there; else the same path as here"),
      "PATH");
  add(command.add_option("--store-address", store_address,
                         "Address of this machine at which they reach it; else the one that leads to them"),
      "ADDRESS");
  add(command.add_option("-x", variables, "A variable to pass on, or to set; may be repeated"),
      "NAME[=VALUE]")
      ->allow_extra_args(false)
      ->check([](const std::string& text) { return text.empty() || text[0] == '=' ? "no name" : ""; });
}

}  // namespace kolo::cli

#include "launch/remote_options.hpp"

#include "kolo/error.hpp"

namespace kolo::cli {

void RemoteArguments::add_to(CLI::App& command) {
  const std::string group = "Several hosts";
  auto* list =
      command.add_option("--hosts", hosts, "Hosts to start ranks on over ssh, with ranks each: a:4,me@b:4")
          ->type_name("LIST")
          ->group(group);
  command.add_option("--hosts-file", hosts_file, "The same from a file, a line a host: \"b 4\"")
      ->type_name("FILE")
      ->group(group)
      ->excludes(list);
  command.add_option("--ssh", options.ssh, "How to reach them, with options")
      ->capture_default_str()
      ->type_name("COMMAND")
      ->group(group);
  command.add_option("--remote-kolo", options.remote_kolo, "Where kolo is there; else the same path as here")
      ->type_name("PATH")
      ->group(group);
  command
      .add_option("--store-address", options.store_address,
                  "Address of this machine at which they reach it; else the one that leads to them")
      ->type_name("ADDRESS")
      ->group(group);
  command.add_option("-x", options.variables, "A variable to pass on, or to set; may be repeated")
      ->type_name("NAME[=VALUE]")
      ->allow_extra_args(false)
      ->group(group);
}

SshOptions RemoteArguments::checked() const {
  SshOptions made = options;
  if (!hosts.empty()) made.hosts = parse_hosts(hosts);
  if (!hosts_file.empty()) made.hosts = read_hosts_file(hosts_file);
  for (const std::string& variable : made.variables) {
    if (variable.empty() || variable.starts_with('='))
      throw InvalidArgument("-x " + variable + ": no name", {});
  }
  return made;
}

}  // namespace kolo::cli

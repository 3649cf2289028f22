// The options for starting ranks on other hosts, shared by all commands that do so.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "launch/launcher.hpp"

namespace kolo::cli {

struct RemoteArguments {
  std::string hosts;
  std::string hosts_file;
  SshOptions options;

  void add_to(CLI::App& command);
  /// The options with the hosts that they name; no hosts if they name none. Throws InvalidArgument.
  SshOptions checked() const;
};

}  // namespace kolo::cli

// The options that say on which hosts to start ranks, and how: the same for every command that does.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "launcher.hpp"

namespace kolo::cli {

struct RemoteArguments {
  std::string hosts;
  std::string hosts_file;
  SshOptions options;

  void add_to(CLI::App& command);
  /// With the hosts that they name; none where they name none. Throws InvalidArgument.
  SshOptions checked() const;
};

}  // namespace kolo::cli

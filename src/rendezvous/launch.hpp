// Reads a launcher's environment variables, through a lookup function so that every launcher can be tested.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/status.hpp"
#include "kolo/store.hpp"

namespace kolo::rendezvous {

/// The value of an environment variable; nullopt where it is not set.
using Lookup = std::function<std::optional<std::string>(const char* name)>;

/// This process's own environment.
std::optional<std::string> environment(const char* name);

/// launch_from_environment() for any environment; Code::invalid_argument names the variable.
Result<Launch> read_launch(const Lookup& lookup);

}  // namespace kolo::rendezvous

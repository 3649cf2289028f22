// The job's key from a file that nobody else can read.
#pragma once

#include <string>

#include "base/status.hpp"

namespace kolo {

/// The file's bytes without the line end after them. It must be a regular file (links to it are followed) of
/// this user with mode 0600 or less, or of root and readable by its group at most, as a secret that
/// Kubernetes mounts with `defaultMode: 0440`; and hold 1 to 4096 bytes. Code::invalid_argument that says
/// what is wrong with it and how to mend that.
Result<std::string> read_key_file(const std::string& path);

}  // namespace kolo

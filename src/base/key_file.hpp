// Reads the job's key from a file that other users cannot read.
#pragma once

#include <string>

#include "base/status.hpp"

namespace kolo {

/// The file's bytes without a line end after them. It must be a regular file (links are followed) of 1 to
/// 4096 bytes. It must belong to this user, with mode 0600 or less. Or it may belong to root and be readable
/// by its group at most, as a secret that Kubernetes mounts with `defaultMode: 0440`. Code::invalid_argument
/// says what is wrong with the file and how to correct it.
Result<std::string> read_key_file(const std::string& path);

}  // namespace kolo

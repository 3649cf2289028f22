// A file that appears all at once.
#pragma once

#include <functional>
#include <ostream>
#include <string>

#include "base/status.hpp"

namespace kolo {

/// What `write` writes goes beside `path`, and takes its place when all of it is there: a reader sees the old
/// file or the new one, and an error leaves nothing. What is no plain file, as /dev/stdout, is written as it
/// is.
Status write_whole_file(const std::string& path, const std::function<void(std::ostream&)>& write);

}  // namespace kolo

// Writes a file that appears all at once.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace kolo {

/// Writes to a file beside `path` and renames it when it is complete: a reader sees the old file or the new
/// one, and an error leaves nothing behind. A `path` that is not a regular file, as /dev/stdout, is written
/// directly.
Status write_whole_file(const std::string& path, const std::function<void(std::ostream&)>& write);
Status write_whole_file(const std::string& path, std::string_view text);

}  // namespace kolo

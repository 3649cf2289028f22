// A checkpoint's file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kolo::train {

struct CheckpointFile {
  std::uint64_t step = 0;
  std::string shared;              ///< an archive
  std::vector<std::string> ranks;  ///< an archive of each rank
};

/// Throws Error, with the path, for what cannot be written. A file that was there is there still
/// then, and nothing of the new one.
void write_checkpoint(const std::string& path, const CheckpointFile& file);
/// Throws Error, with the path, for what cannot be read, is damaged or is no checkpoint.
CheckpointFile read_checkpoint(const std::string& path);

}  // namespace kolo::train

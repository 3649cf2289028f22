// Properties of a checkpoint's parsers for any bytes. Shared by the fuzzer and the test of the format.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>

#include "checkpoint/format.hpp"

namespace kolo::fuzz {

/// With the checksum that an index of these bytes has.
inline std::string with_checksum(std::string_view rest) {
  char sum[9];
  std::snprintf(sum, sizeof sum, "%08x", train::crc32_of(rest.data(), rest.size()));
  return std::string("{\"crc32\":\"") + sum + "\",\n" + std::string(rest);
}

/// What is taken for a header has entries within the file. What is taken for an index, behind its checksum,
/// has tensors that parts cover, and is the same after it was written anew.
inline void checkpoint_files(std::string_view bytes) {
  try {
    const std::uint64_t file_bytes = 2 * bytes.size();
    const train::FileHeader header = train::parse_header(bytes, file_bytes);
    for (const auto& [key, entry] : header.entries)
      if (entry.begin > entry.end || entry.end > file_bytes) std::abort();
  } catch (const std::exception&) {
  }
  try {
    const train::CheckpointIndex index = train::parse_index(with_checksum(bytes));
    for (auto [name, tensor] : index.tensors) train::order_regions(name, tensor.shape, tensor.parts);
    const train::CheckpointIndex again = train::parse_index(train::text_of(index));
    if (again.step != index.step || again.files.size() != index.files.size() ||
        again.tensors != index.tensors)
      std::abort();
  } catch (const std::exception&) {
  }
}

}  // namespace kolo::fuzz

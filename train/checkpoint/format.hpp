// The files of a checkpoint: safetensors, and an index of what they hold. Needs no libtorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/train/slice.hpp"
#include "placement/regions.hpp"

namespace kolo::train {

/// A whole tensor, in parts.
struct StoredTensor {
  std::string dtype;                   ///< "F32", ...: safetensors' names
  Sizes shape = {};                    ///< of the whole tensor
  Sizes order = {};                    ///< dimensions in memory, the outermost first; empty: row-major
  std::vector<HeldRegion> parts = {};  ///< each with the number of the one file that has it

  bool operator==(const StoredTensor&) const = default;
};
/// By name.
using StoredTensors = std::map<std::string, StoredTensor>;

/// Bytes of an element. Throws std::runtime_error for a type that safetensors does not have.
std::uint64_t element_bytes(const std::string& dtype);
std::uint64_t bytes_of(const StoredTensor& tensor, const Region& part);
/// The name of a part among the tensors of a file: that of the tensor, "weight[0:100]" for a range,
/// "weight[:,8:16]" for a slice, "weight[8:16,...]" for one along the first dimension.
std::string key_of(const std::string& name, const Region& part);

struct StoredFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;  ///< of zip: Python's zlib.crc32()
};
struct CheckpointIndex {
  std::uint64_t step = 0;
  std::vector<StoredFile> files = {};
  StoredTensors tensors = {};
};
/// index.json: what safetensors' own index of several files has, and more. Where all tensors are whole, what
/// reads that index reads this one.
std::string text_of(const CheckpointIndex& index);
/// The inverse, but for the order of the files. Throws std::exception for what is damaged, of another format,
/// or names no file for a tensor, and where parts leave a hole or overlap.
CheckpointIndex parse_index(std::string_view text);

/// Where a tensor lies in a file of safetensors.
struct FileEntry {
  std::string dtype;
  Sizes shape = {};
  std::uint64_t begin = 0, end = 0;  ///< bytes; of the file, not of its data
};
struct FileHeader {
  std::uint64_t step = 0;
  std::map<std::string, FileEntry> entries = {};
  std::uint64_t bytes = 0;  ///< of the file
};
/// Gives each entry its place, and returns what the file begins with.
std::string lay_out(FileHeader& header);
/// The inverse, of what a file of so many bytes begins with. Throws std::exception where `start` is no
/// header, or an entry is not within the file.
FileHeader parse_header(std::string_view start, std::uint64_t file_bytes);
/// How many bytes parse_header() needs, from the first kHeaderStart ones.
inline constexpr std::size_t kHeaderStart = 8;
std::uint64_t header_bytes(std::string_view start, std::uint64_t file_bytes);

/// zlib's checksum. `before`: that of what comes before.
std::uint32_t crc32_of(const void* data, std::size_t bytes, std::uint32_t before = 0);

}  // namespace kolo::train

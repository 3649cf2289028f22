// The files of a checkpoint: safetensors, and an index of what they hold. Needs no libtorch.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace kolo::train {

/// The checksum of zip, of Python's zlib.crc32(). `before`: that of what comes before.
std::uint32_t crc32(const void* data, std::size_t bytes, std::uint32_t before = 0);

/// Begin and end; all of something where both are 0.
struct Extent {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
  auto operator<=>(const Extent&) const = default;
};

/// Some elements of a tensor, and where they are.
struct StoredPart {
  Extent slice = {};  ///< along StoredTensor::dimension
  Extent range = {};  ///< of the slice's elements, in memory's order
  std::string file = {}, key = {};
  bool operator==(const StoredPart&) const = default;
  /// By where the elements are.
  bool operator<(const StoredPart& other) const {
    return std::tie(slice, range) < std::tie(other.slice, other.range);
  }
};

/// A whole tensor, in parts.
struct StoredTensor {
  std::string dtype;                     ///< "F32", ...: safetensors' names
  std::vector<std::int64_t> shape = {};  ///< sizes of the whole tensor
  std::int64_t dimension = 0;            ///< along which slices are cut
  std::vector<std::int64_t> order = {};  ///< dimensions in memory, the outermost first; empty: row-major
  std::vector<StoredPart> parts = {};

  bool operator==(const StoredTensor&) const = default;

  /// All of it, as extents that are not empty: of a part's slice, and of its elements.
  Extent slice_of(const StoredPart& part) const;
  Extent range_of(const StoredPart& part) const;
  std::int64_t elements(const Extent& slice) const;
  /// Throws std::runtime_error unless the parts, which it sorts, cover it without overlap.
  void require_whole(const std::string& name);
};
/// By name.
using StoredTensors = std::map<std::string, StoredTensor>;

/// Bytes of an element. Throws std::runtime_error for a type that safetensors does not have.
std::uint64_t element_bytes(const std::string& dtype);
/// The name of a part among the tensors of a file: that of the tensor, "weight[0:100]" for a range,
/// "weight[:,8:16]" for a slice, "weight[8:16,...]" for one along the first dimension.
std::string key_of(const std::string& name, const StoredTensor& tensor, const StoredPart& part);

std::string text_of(const StoredTensors& tensors);
/// The inverse. Throws std::exception.
StoredTensors parse_tensors(std::string_view text);

struct StoredFile {
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;
};
struct CheckpointIndex {
  std::uint64_t step = 0;
  std::map<std::string, StoredFile> files = {};
  StoredTensors tensors = {};
};
/// index.json: what safetensors' own index of several files has, and more. Where all tensors are whole, what
/// reads that index reads this one.
std::string text_of(const CheckpointIndex& index);
/// The inverse. Throws std::exception for what is damaged, of another format, or names no file for a tensor.
CheckpointIndex parse_index(std::string_view text);

/// Where a tensor lies in a file of safetensors.
struct FileEntry {
  std::string dtype;
  std::vector<std::int64_t> shape = {};
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

}  // namespace kolo::train

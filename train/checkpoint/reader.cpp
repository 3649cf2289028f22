#include "checkpoint/reader.hpp"

#include <ATen/Functions.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "placement/placement.hpp"

namespace kolo::train {
namespace {

constexpr std::pair<const char*, at::ScalarType> kTypes[] = {
    {"F64", at::kDouble}, {"F32", at::kFloat}, {"F16", at::kHalf},  {"BF16", at::kBFloat16},
    {"I64", at::kLong},   {"I32", at::kInt},   {"I16", at::kShort}, {"I8", at::kChar},
    {"U8", at::kByte},    {"BOOL", at::kBool}};

constexpr std::uint64_t kPiece = 4u << 20;

[[noreturn]] void fail(const char* what) {
  throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

bool overlap(const Slice& a, const Slice& b) {
  return std::max(a.begin, b.begin) < std::min(a.end(), b.end());
}

/// What a part is cut from, whose elements lie in memory in the tensor's order.
at::Tensor make_cut(const StoredTensor& tensor, const Region& part) {
  const Sizes sizes = cut_sizes(tensor.shape, part);
  Sizes strides(sizes.size(), 1);
  std::int64_t step = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    const std::size_t d = tensor.order.empty() ? i : static_cast<std::size_t>(tensor.order[i]);
    strides[d] = std::exchange(step, step * sizes[d]);
  }
  return at::empty_strided(sizes, strides, scalar_type(tensor.dtype));
}

}  // namespace

bool is_needed(const StoredTensor& there, const Region& part, const PlacedParameter& here) {
  const Slice cut = cut_of(there.shape, part), mine = cut_of(here.whole, here.region);
  const bool is_same_dimension = part.dimension == here.region.dimension;
  if (cut == mine && is_same_dimension && there.order == here.order)
    return overlap(range_of(there.shape, part), range_of(here.whole, here.region));
  return !is_same_dimension || overlap(cut, mine);
}

std::string dtype_name(at::ScalarType type) {
  for (const auto& [name, known] : kTypes)
    if (known == type) return name;
  throw std::runtime_error(std::string("safetensors have no type ") + at::toString(type));
}

at::ScalarType scalar_type(const std::string& dtype) {
  for (const auto& [name, known] : kTypes)
    if (name == dtype) return known;
  throw std::runtime_error("libtorch has no type '" + dtype + "'");
}

DiskFile::DiskFile(const std::string& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
  if (fd_ < 0) fail("open");
}

DiskFile::~DiskFile() {
  ::close(fd_);
}

std::uint64_t DiskFile::size() const {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) fail("stat");
  return static_cast<std::uint64_t>(status.st_size);
}

void DiskFile::read(std::uint64_t at, void* to, std::uint64_t bytes) const {
  for (auto* data = static_cast<char*>(to); bytes > 0;) {
    const ssize_t got = ::pread(fd_, data, bytes, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read");
    if (got == 0) throw std::runtime_error("it is cut off");
    data += got, at += static_cast<std::uint64_t>(got), bytes -= static_cast<std::uint64_t>(got);
  }
}

void DiskFile::write(const void* from, std::uint64_t bytes) {
  for (const auto* data = static_cast<const char*>(from); bytes > 0;) {
    const ssize_t wrote = ::write(fd_, data, bytes);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) fail("write");
    data += wrote, bytes -= static_cast<std::uint64_t>(wrote);
  }
}

void DiskFile::sync() {
  if (::fsync(fd_) != 0) fail("fsync");
}

template <typename Action>
auto CheckpointReader::named(const std::string& file, const Action& action) {
  try {
    return action();
  } catch (const std::exception& error) {
    throw std::runtime_error(folder_ + '/' + file + ": " + error.what());
  }
}

CheckpointReader::CheckpointReader(std::string folder) : folder_(std::move(folder)) {
  named("index.json", [&] {
    const DiskFile file(folder_ + "/index.json", O_RDONLY);
    std::string text(file.size(), '\0');
    file.read(0, text.data(), text.size());
    index_ = parse_index(text);
    index_crc_ = crc32_of(text.data(), text.size());
  });
}

CheckpointReader::Open& CheckpointReader::open(const std::string& file) {
  std::unique_ptr<Open>& result = files_[file];
  if (result) return *result;
  auto opened = std::unique_ptr<Open>(new Open{{folder_ + '/' + file, O_RDONLY}, {}});
  const std::uint64_t size = opened->file.size();
  std::string start(std::min<std::uint64_t>(size, kHeaderStart), '\0');
  opened->file.read(0, start.data(), start.size());
  start.resize(header_bytes(start, size));
  opened->file.read(0, start.data(), start.size());
  opened->header = parse_header(start, size);
  result = std::move(opened);
  return *result;
}

void CheckpointReader::check_files(std::uint64_t rank, std::uint64_t ranks) {
  std::vector<char> piece;
  for (std::uint64_t number = rank; number < index_.files.size(); number += ranks) {
    const StoredFile& file = index_.files[number];
    named(file.name, [&] {
      const Open& opened = open(file.name);
      if (opened.header.step != index_.step) {
        throw std::runtime_error("it is of step " + std::to_string(opened.header.step) +
                                 ", and the index of step " + std::to_string(index_.step));
      }
      if (opened.header.bytes != file.bytes)
        throw std::runtime_error("it has " + std::to_string(opened.header.bytes) + " bytes in place of " +
                                 std::to_string(file.bytes));
      std::uint32_t crc = 0;
      for (std::uint64_t at = 0; at < file.bytes; at += piece.size()) {
        piece.resize(std::min(kPiece, file.bytes - at));
        opened.file.read(at, piece.data(), piece.size());
        crc = crc32_of(piece.data(), piece.size(), crc);
      }
      if (crc != file.crc) throw std::runtime_error("it is damaged: it has another checksum");
      for (const auto& [name, tensor] : index_.tensors) {
        for (const auto& [region, files] : tensor.parts) {
          if (std::cmp_not_equal(files.front(), number)) continue;
          const std::string key = key_of(name, region);
          const auto found = opened.header.entries.find(key);
          if (found == opened.header.entries.end() || found->second.dtype != tensor.dtype ||
              found->second.end - found->second.begin != bytes_of(tensor, region))
            throw std::runtime_error("it has no '" + key + "' as the index says");
        }
      }
    });
  }
}

at::Tensor StateReader::read(const PlacedParameter& here) {
  const StoredTensor& there = index_.tensors.at(here.name);
  const at::Tensor whole = make_cut(there, {});  // pages of what is not needed stay untouched
  at::Tensor slice;
  std::optional<Region> current;  // that `slice` is cut by
  const auto finish = [&] {
    if (current && current->cut)
      whole.narrow(current->dimension, current->cut->begin, current->cut->length).copy_(slice);
  };
  for (const HeldRegion& part : there.parts) {
    const Region& region = part.region;
    if (!is_needed(there, region, here)) continue;
    if (!current || current->cut != region.cut) {
      finish();
      slice = region.cut ? make_cut(there, region) : whole;
      current = region;
    }
    const auto skipped =
        static_cast<std::uint64_t>(range_of(there.shape, region).begin) * element_bytes(there.dtype);
    read_part(here.name, part, static_cast<char*>(slice.data_ptr()) + skipped);
  }
  finish();
  return region_in(whole, here);
}

void CheckpointReader::read_part(const std::string& name, const HeldRegion& part, void* to) {
  const std::string& path = index_.files[static_cast<std::size_t>(part.ranks.front())].name;
  named(path, [&] {
    const auto& [file, header] = open(path);
    const FileEntry& from = header.entries.at(key_of(name, part.region));
    file.read(from.begin, to, from.end - from.begin);
  });
}

}  // namespace kolo::train

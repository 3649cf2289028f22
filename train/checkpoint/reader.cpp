#include "checkpoint/reader.hpp"

#include <ATen/Functions.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

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

bool overlap(const Extent& a, const Extent& b) {
  return std::max(a.begin, b.begin) < std::min(a.end, b.end);
}

/// A slice of a tensor, whose elements lie in memory in its order.
at::Tensor make_slice(const StoredTensor& tensor, const Extent& slice) {
  std::vector<std::int64_t> sizes = tensor.shape, strides(sizes.size(), 1);
  if (!sizes.empty()) sizes[static_cast<std::size_t>(tensor.dimension)] = slice.count();
  std::int64_t step = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    const std::size_t d = tensor.order.empty() ? i : static_cast<std::size_t>(tensor.order[i]);
    strides[d] = std::exchange(step, step * sizes[d]);
  }
  return at::empty_strided(sizes, strides, scalar_type(tensor.dtype));
}

at::Tensor slice_in(const StoredTensor& tensor, const Extent& slice, const at::Tensor& whole) {
  return tensor.shape.empty() ? whole : whole.slice(tensor.dimension, slice.begin, slice.end);
}

/// Whether the region may need elements of the part.
bool is_needed(const StoredTensor& there, const StoredPart& part, const StoredTensor& here) {
  const StoredPart& mine = here.parts[0];
  if (part.slice == mine.slice && there.dimension == here.dimension && there.order == here.order)
    return overlap(there.range_of(part), here.range_of(mine));
  return there.dimension != here.dimension || overlap(there.slice_of(part), here.slice_of(mine));
}

}  // namespace

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
    index_crc_ = crc32(text.data(), text.size());
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
  std::uint64_t number = 0;
  for (const auto& [name, stored] : index_.files) {
    if (number++ % ranks != rank) continue;
    named(name, [&, &file = stored] {
      const Open& opened = open(name);
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
        crc = crc32(piece.data(), piece.size(), crc);
      }
      if (crc != file.crc) throw std::runtime_error("it is damaged: it has another checksum");
    });
  }
}

const FileEntry& CheckpointReader::entry(const StoredTensor& there, const StoredPart& part) {
  const auto& entries = open(part.file).header.entries;
  const auto found = entries.find(part.key);
  const auto bytes = static_cast<std::uint64_t>(there.range_of(part).count()) * element_bytes(there.dtype);
  if (found == entries.end() || found->second.dtype != there.dtype ||
      found->second.end - found->second.begin != bytes)
    throw std::runtime_error("it has no '" + part.key + "' as the index says");
  return found->second;
}

void CheckpointReader::check(const StoredTensor& there, const StoredTensor& here) {
  for (const StoredPart& part : there.parts)
    if (!here.parts.empty() && is_needed(there, part, here)) named(part.file, [&] { entry(there, part); });
}

at::Tensor CheckpointReader::read(const StoredTensor& there, const StoredTensor& here) {
  const Extent all = there.slice_of({});
  at::Tensor whole = make_slice(there, all), slice;  // pages of what is not needed stay untouched
  for (std::size_t i = 0; i < there.parts.size(); ++i) {
    const StoredPart& part = there.parts[i];
    const Extent extent = there.slice_of(part), range = there.range_of(part);
    if (i == 0 || there.parts[i - 1].slice != part.slice)
      slice = extent == all ? whole : make_slice(there, extent);
    if (is_needed(there, part, here)) {
      named(part.file, [&] {
        const FileEntry& from = entry(there, part);
        const auto skipped = static_cast<std::uint64_t>(range.begin) * element_bytes(there.dtype);
        open(part.file).file.read(from.begin, static_cast<char*>(slice.data_ptr()) + skipped,
                                  from.end - from.begin);
      });
    }
    const bool is_last = i + 1 == there.parts.size() || there.parts[i + 1].slice != part.slice;
    if (is_last && extent != all) slice_in(there, extent, whole).copy_(slice);
  }
  const StoredPart& mine = here.parts[0];
  whole = slice_in(here, here.slice_of(mine), whole);
  if (mine.range == Extent()) return whole;
  if (!here.order.empty()) whole = whole.permute(here.order);
  return whole.reshape({-1}).slice(0, mine.range.begin, mine.range.end);
}

}  // namespace kolo::train

#include "checkpoint/archive_check.hpp"

#include <caffe2/serialize/inline_container.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

namespace kolo::train {
namespace {

using caffe2::serialize::ReadAdapterInterface;

/// Row r, column b: the checksum of byte b that r zero bytes follow.
constexpr auto kTable = [] {
  std::array<std::array<std::uint32_t, 256>, 8> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0u);
    table[0][byte] = crc;
  }
  for (std::size_t row = 1; row < table.size(); ++row) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = table[row - 1][byte];
      table[row][byte] = before >> 8 ^ table[0][before & 0xFF];
    }
  }
  return table;
}();

/// Zip's, eight bytes at a time (M. Kounavis, F. Berry: "A Systematic Approach to Building High Performance
/// Software-Based CRC Generators", 2005).
std::uint32_t crc32(const std::uint8_t* at, std::size_t bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (; bytes >= 8; at += 8, bytes -= 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    word ^= crc;
    crc = 0;
    for (std::size_t i = 0; i < 8; ++i) crc ^= kTable[7 - i][word >> 8 * i & 0xFF];
  }
  for (; bytes > 0; ++at, --bytes) crc = crc >> 8 ^ kTable[0][(crc ^ *at) & 0xFF];
  return ~crc;
}

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(std::string("it is damaged: ") + what);
}

/// A part of the file, as structures of zip: little-endian numbers without gaps.
class FileRange {
 public:
  FileRange(const ReadAdapterInterface& file, std::uint64_t offset, std::size_t bytes) : text_(bytes, '\0') {
    if (bytes > 0) file.read(offset, text_.data(), bytes, "a part of an archive");
  }
  template <typename T>
  T number(std::size_t at) const {
    T value;
    std::memcpy(&value, text(at, sizeof value).data(), sizeof value);
    return value;
  }
  std::string text(std::size_t at, std::size_t bytes) const {
    require(at <= text_.size() && bytes <= text_.size() - at, "its directory is cut off");
    return text_.substr(at, bytes);
  }
  std::size_t size() const { return text_.size(); }

 private:
  std::string text_;
};

struct Directory {
  std::uint64_t offset, bytes, records;
};

/// From an archive's last bytes: the directory's end in numbers of 64 bits, where that is, and the same in
/// shorter numbers. libtorch always writes all three.
Directory find_directory(const ReadAdapterInterface& file) {
  constexpr std::size_t kLongEnd = 56, kLocator = 20, kShortEnd = 22,
                        kBytes = kLongEnd + kLocator + kShortEnd;
  const std::uint64_t size = file.size();
  require(size >= kBytes, "it is cut off");
  const std::uint64_t end = size - kBytes;
  const FileRange part(file, end, kBytes);
  const Directory found{part.number<std::uint64_t>(48), part.number<std::uint64_t>(40),
                        part.number<std::uint64_t>(32)};
  std::string expected;
  const auto put = [&]<typename T>(T value) {
    expected.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  const auto put_short = [&]<typename T>(std::uint64_t value, T most) {
    put(static_cast<T>(std::min<std::uint64_t>(value, most)));
  };
  constexpr std::uint16_t kMost16 = 0xFFFF;
  constexpr std::uint32_t kMost32 = 0xFFFFFFFF;
  put(std::uint32_t{0x06064B50}), put(std::uint64_t{kLongEnd - 12});
  put(part.number<std::uint32_t>(12));  // versions, on which nothing depends
  put(std::uint64_t{0}), put(found.records), put(found.records), put(found.bytes), put(found.offset);
  put(std::uint32_t{0x07064B50}), put(std::uint32_t{0}), put(end), put(std::uint32_t{1});
  put(std::uint32_t{0x06054B50}), put(std::uint32_t{0});
  put_short(found.records, kMost16), put_short(found.records, kMost16);
  put_short(found.bytes, kMost32), put_short(found.offset, kMost32);
  put(std::uint16_t{0});  // no comment
  require(part.text(0, kBytes) == expected && found.offset <= end && found.bytes == end - found.offset,
          "it does not end as an archive does");
  return found;
}

}  // namespace

void check_archive(const std::shared_ptr<ReadAdapterInterface>& file) {
  const Directory place = find_directory(*file);
  const FileRange directory(*file, place.offset, place.bytes);
  caffe2::serialize::PyTorchStreamReader reader(file);
  std::uint64_t records = 0;
  for (std::size_t at = 0; at < directory.size(); ++records) {
    constexpr std::size_t kHeader = 46;
    require(directory.number<std::uint32_t>(at) == 0x02014B50, "an entry of its directory");
    const auto crc = directory.number<std::uint32_t>(at + 16);
    const std::size_t name_bytes = directory.number<std::uint16_t>(at + 28);
    const std::string path = directory.text(at + kHeader, name_bytes);
    at += kHeader + name_bytes + directory.number<std::uint16_t>(at + 30) +
          directory.number<std::uint16_t>(at + 32);
    const std::string name = path.substr(path.find('/') + 1);  // without the archive's own
    const auto [data, bytes] = reader.getRecord(name);
    if (crc32(static_cast<const std::uint8_t*>(data.get()), bytes) != crc)
      throw std::runtime_error("it is damaged: '" + name + "' has another checksum");
  }
  require(records == place.records, "records are missing");
}

}  // namespace kolo::train

#include "fashion_mnist/idx.hpp"

#include <stdexcept>

#include "support/gzip_file.hpp"

namespace fashion_mnist {
namespace {

constexpr std::uint8_t kUnsignedBytes = 0x08;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 32;

}  // namespace

IdxArray read_idx(const std::string& path) {
  support::GzipFile file(path, "dataset-fashion-mnist");
  std::uint8_t magic[4];
  file.read(magic, sizeof magic);
  if (magic[0] != 0 || magic[1] != 0 || magic[2] != kUnsignedBytes || magic[3] == 0) {
    throw std::runtime_error(path + " is no IDX file of bytes");
  }
  IdxArray array;
  std::int64_t count = 1;
  for (int i = 0; i < magic[3]; ++i) {
    std::uint8_t big_endian[4];
    file.read(big_endian, sizeof big_endian);
    std::int64_t length = 0;
    for (const std::uint8_t byte : big_endian) length = length << 8 | byte;
    if (length == 0 || count > kMaxBytes / length) {
      throw std::runtime_error(path + " claims a senseless size");
    }
    count *= length;
    array.dimensions.push_back(length);
  }
  array.values.resize(static_cast<std::size_t>(count));
  file.read(array.values.data(), array.values.size());
  return array;
}

}  // namespace fashion_mnist

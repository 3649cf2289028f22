#include "fashion_mnist/idx.hpp"

#include <zlib.h>

#include <memory>
#include <stdexcept>

namespace fashion_mnist {
namespace {

constexpr std::uint8_t kUnsignedBytes = 0x08;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 32;

class GzipFile {
 public:
  explicit GzipFile(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb"), &gzclose) {
    if (!file_) throw std::runtime_error("cannot open " + path + " (Debian's dataset-fashion-mnist has it)");
  }

  void read(std::uint8_t* data, std::size_t bytes) {
    while (bytes > 0) {
      const auto part = static_cast<unsigned>(std::min<std::size_t>(bytes, 1u << 30));
      const int got = gzread(file_.get(), data, part);
      if (got <= 0) throw std::runtime_error(path_ + " is damaged or cut short");
      data += got;
      bytes -= static_cast<std::size_t>(got);
    }
  }

 private:
  std::string path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
};

}  // namespace

IdxArray read_idx(const std::string& path) {
  GzipFile file(path);
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

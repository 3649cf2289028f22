#include "support/gzip_file.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

namespace support {

GzipFile::GzipFile(std::string path, const std::string& package)
    : path_(std::move(path)), file_(gzopen(path_.c_str(), "rb"), &gzclose) {
  if (file_) return;
  throw std::runtime_error("cannot open " + path_ +
                           (package.empty() ? "" : " (Debian's " + package + " has it)"));
}

void GzipFile::read(std::uint8_t* data, std::size_t bytes) {
  while (bytes > 0) {
    const std::size_t got = read_some(data, bytes);
    if (got == 0) throw std::runtime_error(path_ + " is damaged or cut short");
    data += got;
    bytes -= got;
  }
}

std::string GzipFile::read_all() {
  constexpr std::size_t kPart = std::size_t{1} << 20;
  std::string text;
  for (;;) {
    const std::size_t before = text.size();
    text.resize(before + kPart);
    const std::size_t got = read_some(reinterpret_cast<std::uint8_t*>(text.data()) + before, kPart);
    text.resize(before + got);
    if (got == 0) break;
  }
  // A file that ends within a compressed stream is an error here alone.
  if (gzclose_r(file_.release()) != Z_OK) throw std::runtime_error(path_ + " is cut short");
  return text;
}

std::size_t GzipFile::read_some(std::uint8_t* data, std::size_t bytes) {
  const int got =
      gzread(file_.get(), data, static_cast<unsigned>(std::min<std::size_t>(bytes, std::size_t{1} << 30)));
  if (got < 0) throw std::runtime_error(path_ + " is damaged");
  return static_cast<std::size_t>(got);
}

double gzip_bits_per_byte(const std::string& text) {
  if (text.empty()) return 0;
  auto bytes = compressBound(static_cast<uLong>(text.size()));
  std::vector<Bytef> packed(bytes);
  compress2(packed.data(), &bytes, reinterpret_cast<const Bytef*>(text.data()),
            static_cast<uLong>(text.size()), Z_BEST_COMPRESSION);
  return 8.0 * static_cast<double>(bytes) / static_cast<double>(text.size());
}

}  // namespace support

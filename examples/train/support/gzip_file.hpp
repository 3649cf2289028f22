// A file that may be compressed by gzip.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace support {

/// Reads what was compressed; a file that is not compressed is read as it is. All errors are
/// std::runtime_error and name the file.
class GzipFile {
 public:
  /// `package` is Debian's that has the file, for the message if it is missing; empty: none has.
  GzipFile(std::string path, const std::string& package);

  /// Throws where the file ends before.
  void read(std::uint8_t* data, std::size_t bytes);
  /// All that is left. Throws if a compressed file has been cut short.
  std::string read_all();

 private:
  std::size_t read_some(std::uint8_t* data, std::size_t bytes);

  std::string path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
};

/// What gzip -9 makes of a text, in bits per byte of it; 0 for an empty text.
double gzip_bits_per_byte(const std::string& text);

}  // namespace support

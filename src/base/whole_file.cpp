#include "base/whole_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/file_size_limit.hpp"

namespace kolo {

Status write_whole_file(const std::string& path, const std::function<void(std::ostream&)>& write) {
  namespace fs = std::filesystem;
  std::error_code error;
  const bool plain = !fs::exists(path, error) || fs::is_regular_file(path, error);
  const std::string beside = plain ? fmt::format("{}.{}", path, ::getpid()) : path;
  const FileSizeLimit limit;
  std::ofstream file(beside);
  if (file) write(file);
  file.close();
  int failed = file ? 0 : errno;
  if (failed == 0 && plain) {
    fs::rename(beside, path, error);
    failed = error.value();
  }
  if (failed == 0) return {};
  if (plain) fs::remove(beside, error);
  return Status::from_errno("cannot write " + path, failed);
}

Status write_whole_file(const std::string& path, std::string_view text) {
  return write_whole_file(path, [&](std::ostream& file) { file << text; });
}

}  // namespace kolo

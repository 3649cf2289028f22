#include "text/json_lines.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <stdexcept>

namespace kolo::cli {

JsonLines::JsonLines(const std::string& path, bool append) : path_(path) {
  if (path.empty() || path == "-") return;
  file_.open(path, std::ios::app);
  if (!file_) throw std::runtime_error(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  // Streams cannot truncate and append; a pipe cannot be opened twice.
  if (!append && std::filesystem::is_regular_file(path)) std::filesystem::resize_file(path, 0);
}

void JsonLines::write(const std::string& line) {
  if (replaces_text()) {
    // main() reports a full disk.
    std::fputs((line + "\n").c_str(), stdout);
    std::fflush(stdout);
    return;
  }
  if (!file_.is_open()) return;
  file_ << line << std::endl;
  if (!file_) throw std::runtime_error(fmt::format("cannot write {}: {}", path_, std::strerror(errno)));
}

}  // namespace kolo::cli

#include "transport/host.hpp"

#include <sys/stat.h>

#include <cctype>
#include <fstream>

#include <fmt/format.h>

namespace kolo::transport {

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  for (char c; file.get(c);) {
    if (std::isxdigit(static_cast<unsigned char>(c))) id += c;
  }
  return id;
}

std::string namespace_of(const char* kind) {
  struct stat info {};
  return ::stat(fmt::format("/proc/self/ns/{}", kind).c_str(), &info) == 0 ? std::to_string(info.st_ino) : "";
}

}  // namespace kolo::transport

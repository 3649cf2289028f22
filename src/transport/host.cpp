#include "transport/host.hpp"

#include <sys/stat.h>

#include <cctype>
#include <fstream>

#include "net/random.hpp"

namespace kolo::transport {
namespace {

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  for (char c; file.get(c);) {
    if (std::isxdigit(static_cast<unsigned char>(c))) id += c;
  }
  return id.empty() ? net::random_hex(16) : id;
}

std::string inode(const char* path) {
  struct stat info {};
  return ::stat(path, &info) == 0 ? std::to_string(info.st_ino) : net::random_hex(16);
}

}  // namespace

const Host& this_host() {
  static const Host host{boot_id(), inode("/proc/self/ns/net"), inode("/proc/self/ns/user")};
  return host;
}

}  // namespace kolo::transport

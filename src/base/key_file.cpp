#include "base/key_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/unique_fd.hpp"

namespace kolo {
namespace {

constexpr std::size_t kMostBytes = 4096;

/// Empty if only this user, root and a group chosen by root can read or change the file.
std::string trouble_with(const struct stat& file) {
  if (!S_ISREG(file.st_mode)) return "is no regular file";
  const bool roots = file.st_uid == 0;
  if (file.st_uid != ::geteuid() && !roots)
    return "belongs to another user; chown it to the one who runs this";
  const mode_t forbidden = roots ? 0037 : 0077;
  if ((file.st_mode & forbidden) == 0) return "";
  char mode[8];
  std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(file.st_mode & 07777));
  return std::string("has mode ") + mode + ", so that others can read it; chmod 600 it" +
         (roots ? " (a Kubernetes secret: defaultMode 0440)" : "");
}

}  // namespace

Result<std::string> read_key_file(const std::string& path) {
  const auto wrong = [&](const std::string& why) {
    return Status(Code::invalid_argument, "the key file " + path + " " + why);
  };
  // Not blocking: it may be a pipe, which the check below rejects.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return wrong(std::string("cannot be read: ") + std::strerror(errno));
  struct stat file {};
  if (::fstat(fd.get(), &file) != 0) return wrong(std::string("cannot be read: ") + std::strerror(errno));
  if (const std::string trouble = trouble_with(file); !trouble.empty()) return wrong(trouble);
  std::string key(kMostBytes + 1, '\0');
  std::size_t size = 0;
  while (size < key.size()) {
    const ssize_t got = ::read(fd.get(), key.data() + size, key.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return wrong(std::string("cannot be read: ") + std::strerror(errno));
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > kMostBytes) return wrong("is too long for a key");
  key.resize(size);
  if (key.ends_with('\n')) key.pop_back();
  if (key.ends_with('\r')) key.pop_back();
  if (key.empty()) return wrong("is empty");
  return key;
}

}  // namespace kolo

#include "net/random.hpp"

#include <sys/random.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace kolo::net {

void fill_random(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = ::getrandom(out.data(), out.size(), 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      // Without randomness there is no authentication: continuing would only pretend to authenticate.
      std::fprintf(stderr, "kolo critical: getrandom: %s: this process ends\n", std::strerror(errno));
      std::abort();
    }
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

std::string random_hex(std::size_t bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::vector<std::byte> raw(bytes);
  fill_random(raw);
  std::string text;
  for (const std::byte byte : raw) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

}  // namespace kolo::net

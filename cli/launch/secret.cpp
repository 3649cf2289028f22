#include "launch/secret.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/status.hpp"

namespace kolo::cli {

std::string random_secret() {
  std::array<unsigned char, 32> bytes;
  if (::getentropy(bytes.data(), bytes.size()) != 0) {
    Status::from_errno("cannot make a key for the job", errno).throw_if_error();
  }
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace kolo::cli

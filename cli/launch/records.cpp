#include "launch/records.hpp"

#include <fmt/format.h>

#include <cstdio>

namespace kolo::cli {
namespace {

constexpr std::string_view kHello = "kolo-part ";
constexpr int kVersion = 5;
constexpr std::size_t kLongestHead = 40;
constexpr std::size_t kLongestText = 16u << 20;
/// More than a host's shell prints before a program runs.
constexpr std::size_t kLongestPreamble = 1u << 16;

}  // namespace

std::string part_hello(int port) {
  return fmt::format("{}{} {}\n", kHello, kVersion, port);
}

std::string record(RecordKind kind, int number, std::string_view text) {
  return fmt::format("{} {} {}\n{}", static_cast<char>(kind), number, text.size(), text);
}

void RecordReader::feed(std::string_view bytes) {
  buffer_.erase(0, taken_);
  taken_ = 0;
  buffer_ += bytes;
}

Result<int> RecordReader::skip_hello() {
  const auto begin = buffered().find(kHello);
  const auto end = begin == std::string_view::npos ? begin : buffered().find('\n', begin);
  if (end == std::string_view::npos) {
    if (buffered().size() < kLongestPreamble) return 0;
    return Status(Code::system, "something else than kolo speaks there");
  }
  const std::string theirs(buffered().substr(begin, end - begin));
  int version = 0, port = 0;
  if (std::sscanf(theirs.c_str() + kHello.size(), "%d %d", &version, &port) != 2 || version != kVersion) {
    return Status(Code::system, fmt::format("another version of kolo is there: {}, and here {}{}", theirs,
                                            kHello, kVersion));
  }
  taken_ += end + 1;
  return port;
}

Result<std::optional<Record>> RecordReader::next() {
  const auto end = buffered().substr(0, kLongestHead).find('\n');
  if (end == std::string_view::npos && buffered().size() < kLongestHead) return std::optional<Record>();
  const std::string head(buffered().substr(0, end));
  char kind = 0;
  int number = 0;
  std::size_t length = 0;
  if (end == std::string_view::npos || std::sscanf(head.c_str(), "%c %d %zu", &kind, &number, &length) != 3 ||
      length > kLongestText) {
    return Status(Code::system, "what it says makes no sense");
  }
  if (buffered().size() - end - 1 < length) return std::optional<Record>();
  std::optional<Record> record(
      Record{static_cast<RecordKind>(kind), number, std::string(buffered().substr(end + 1, length))});
  taken_ += end + 1 + length;
  return record;
}

}  // namespace kolo::cli

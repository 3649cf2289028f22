#include "launch/frames.hpp"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace kolo::cli {
namespace {

constexpr std::size_t kHeadBytes = 9;
constexpr std::uint32_t kLongestText = 16u << 20;
/// More than a host's shell prints before a program runs.
constexpr std::size_t kLongestPreamble = 1u << 16;

void put(std::string& into, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) into.push_back(static_cast<char>(value >> shift & 0xff));
}

std::uint32_t take(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

}  // namespace

void FrameReader::feed(std::string_view bytes) {
  buffer_.erase(0, taken_);
  taken_ = 0;
  buffer_ += bytes;
}

Result<bool> FrameReader::skip_to_hello() {
  const auto at = buffered().find(kAgentHello);
  if (at != std::string_view::npos) {
    taken_ += at + kAgentHello.size();
    return true;
  }
  const auto other = buffered().find(kAgentHello.substr(0, kAgentHello.find(' ') + 1));
  if (const auto end = buffered().find('\n', other); end != std::string_view::npos) {
    const std::string theirs(buffered().substr(other, end - other));
    const std::string ours(kAgentHello.substr(0, kAgentHello.size() - 1));
    return Status(Code::system, "another version of kolo is there: " + theirs + ", and here " + ours);
  }
  if (buffered().size() < kLongestPreamble) return false;
  return Status(Code::system, "something else than kolo speaks there");
}

Result<std::optional<Frame>> FrameReader::next() {
  const std::string_view bytes = buffered();
  if (bytes.size() < kHeadBytes) return std::optional<Frame>();
  const std::uint32_t length = take(bytes.substr(5));
  if (length > kLongestText) return Status(Code::system, "what it says makes no sense");
  if (bytes.size() < kHeadBytes + length) return std::optional<Frame>();
  taken_ += kHeadBytes + length;
  return std::optional<Frame>(Frame{static_cast<FrameKind>(bytes[0]), take(bytes.substr(1)),
                                    std::string(bytes.substr(kHeadBytes, length))});
}

void FrameWriter::frame(FrameKind kind, std::uint32_t number, std::string_view text) {
  std::string head(1, static_cast<char>(kind));
  put(head, number);
  put(head, static_cast<std::uint32_t>(text.size()));
  queue_.append(head).append(text);
}

std::string join_texts(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) joined.append(text).push_back('\0');
  return joined;
}

std::vector<std::string> split_texts(std::string_view joined) {
  std::vector<std::string> texts;
  for (auto end = joined.find('\0'); end != std::string_view::npos; end = joined.find('\0')) {
    texts.emplace_back(joined.substr(0, end));
    joined.remove_prefix(end + 1);
  }
  return texts;
}

bool read_some(int fd, std::string& into) {
  pollfd entry{fd, POLLIN, 0};
  if (::poll(&entry, 1, 0) <= 0) return true;
  std::array<char, 1 << 16> block;
  const ssize_t got = ::read(fd, block.data(), block.size());
  if (got > 0) into.append(block.data(), static_cast<std::size_t>(got));
  return got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN));
}

}  // namespace kolo::cli

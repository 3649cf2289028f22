#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "kolo/error.hpp"
#include "kolo/train/figures.hpp"

namespace kolo {
namespace {

template <typename Number>
void append(std::string& to, Number number) {
  static_assert(std::endian::native == std::endian::little, "both formats are little-endian");
  to.append(reinterpret_cast<const char*>(&number), sizeof number);
}

/// CRC-32C, rotated and shifted, so that the checksum of bytes that end in their checksum is no constant.
void append_checksum(std::string& to, std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const char byte : bytes) {
    crc ^= static_cast<std::uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
  }
  append(to, std::rotr(~crc, 15) + 0xA282EAD8u);
}

/// A record of a TFRecord file (tensorflow/core/lib/io/record_writer.h).
std::string record_of(std::string_view message) {
  std::string record;
  append(record, std::uint64_t{message.size()});
  append_checksum(record, record);
  record += message;
  append_checksum(record, message);
  return record;
}

// Protocol buffers: the key of a field, its number times 8 plus the type of what follows, fits in one byte
// here.
void append_varint(std::string& to, std::uint64_t number) {
  for (; number >= 0x80; number >>= 7) to += static_cast<char>(number | 0x80);
  to += static_cast<char>(number);
}
void append_bytes(std::string& to, char key, std::string_view bytes) {
  to += key;
  append_varint(to, bytes.size());
  to += bytes;
}

// Fields of Event (tensorflow/core/util/event.proto), Summary and Summary.Value (framework/summary.proto).
constexpr char kWallTime = 0x09, kStep = 0x10, kFileVersion = 0x1A, kSummary = 0x2A, kSessionLog = 0x3A;
constexpr char kValue = 0x0A, kTag = 0x0A, kSimpleValue = 0x15;
constexpr std::string_view kSessionStarts = "\x08\x01";  // SessionLog.status

/// An event whose third field is `key`.
std::string event_of(double seconds, std::uint64_t step, char key, std::string_view content) {
  std::string event(1, kWallTime);
  append(event, seconds);
  event += kStep;
  append_varint(event, step);
  append_bytes(event, key, content);
  return record_of(event);
}

std::string summary_of(std::span<const Figure> figures) {
  std::string summary;
  for (const Figure& figure : figures) {
    std::string value;
    append_bytes(value, kTag, figure.name);
    value += kSimpleValue;
    append(value, static_cast<float>(figure.value));
    append_bytes(summary, kValue, value);
  }
  return summary;
}

/// The shortest text that reads as the same number.
std::string shortest_text(double number) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// With the beginning that TensorBoard looks for; it reads files in the order of their names.
std::string name_of_events() {
  std::array<char, 256> host{};
  static_cast<void>(::gethostname(host.data(), host.size() - 1));
  return "events.out.tfevents." + std::to_string(static_cast<std::int64_t>(seconds_now())) + '.' +
         host.data() + '.' + std::to_string(::getpid());
}

[[noreturn]] void fail(const std::string& path, int error) {
  throw SystemError("cannot write " + path + ": " + std::strerror(error), {});
}

/// A file that grows by whole pieces.
class GrowingFile {
 public:
  GrowingFile(const std::string& folder, const std::string& name)
      : path_(folder + '/' + name),
        file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
    if (file_ < 0) fail(path_, errno);
  }
  ~GrowingFile() { ::close(file_); }
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  off_t size() const { return ::lseek(file_, 0, SEEK_END); }
  void add(std::string_view piece) {
    const off_t before = size();
    while (!piece.empty()) {
      const ssize_t written = ::write(file_, piece.data(), piece.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        const int error = errno;
        static_cast<void>(::ftruncate(file_, before) + 1);  // only whole pieces stay
        fail(path_, error);
      }
      piece.remove_prefix(static_cast<std::size_t>(written));
    }
  }

 private:
  const std::string path_;
  const int file_;
};

}  // namespace

struct FigureWriter::State {
  explicit State(const std::string& folder) : table(folder, "figures.csv"), events(folder, name_of_events()) {
    if (table.size() == 0) table.add("seconds,step,name,value\n");
    events.add(event_of(seconds_now(), 0, kFileVersion, "brain.Event:2"));
  }

  GrowingFile table, events;
  bool is_begun = false;
};

FigureWriter::FigureWriter(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(folder, error.value());
  state_ = std::make_unique<State>(folder);
}

FigureWriter::~FigureWriter() = default;

void FigureWriter::write(std::uint64_t step, std::span<const Figure> figures) {
  const double seconds = seconds_now();
  std::string lines;
  for (const auto& [name, value] : figures) {
    const auto is_allowed = [](char letter) { return letter >= ' ' && letter <= '~' && letter != '"'; };
    if (name.empty() || !std::ranges::all_of(name, is_allowed))
      throw InvalidArgumentError("a figure's name is empty, or not printable ASCII without quotes", {});
    lines += shortest_text(seconds) + ',' + std::to_string(step) + ",\"" + std::string(name) + "\"," +
             shortest_text(value) + '\n';
  }
  // A session that starts replaces what an earlier one has written from this step on.
  std::string events = state_->is_begun ? "" : event_of(seconds, step, kSessionLog, kSessionStarts);
  state_->events.add(events += event_of(seconds, step, kSummary, summary_of(figures)));
  state_->is_begun = true;
  state_->table.add(lines);
}

}  // namespace kolo

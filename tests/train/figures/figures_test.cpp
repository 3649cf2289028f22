// FigureWriter: both files read by the definition of their formats, runs that go on, and disks that do not
// take them.
#include "kolo/train/figures.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <vector>

#include "kolo/error.hpp"
#include "support/temporary_folder.hpp"

namespace kolo::test::figures {
namespace {

/// By the definition, with the polynomial's coefficients the other way round: Castagnoli's 0x1EDC6F41, bits
/// reflected.
std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const bool is_set = ((static_cast<std::uint8_t>(byte) >> bit) & 1) != (crc >> 31);
      crc = crc << 1 ^ (is_set ? 0x1EDC6F41u : 0u);
    }
  }
  std::uint32_t reflected = 0;
  for (int bit = 0; bit < 32; ++bit) reflected |= (crc >> bit & 1) << (31 - bit);
  return ~reflected;
}

/// Takes a number off the front.
template <typename Number>
Number take(std::string_view& bytes) {
  Number number{};
  if (bytes.size() < sizeof number) throw std::runtime_error("the bytes end in a number");
  std::memcpy(&number, bytes.data(), sizeof number);
  bytes.remove_prefix(sizeof number);
  return number;
}

std::string_view take_bytes(std::string_view& bytes, std::size_t count) {
  if (bytes.size() < count) throw std::runtime_error("the bytes end");
  const std::string_view taken = bytes.substr(0, count);
  bytes.remove_prefix(count);
  return taken;
}

std::uint64_t take_varint(std::string_view& bytes) {
  std::uint64_t number = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = take<std::uint8_t>(bytes);
    number |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return number;
  }
}

struct Event {
  double seconds = 0;
  std::uint64_t step = 0;
  std::string version;
  bool starts_session = false;
  std::vector<std::pair<std::string, float>> values;
};

void parse_summary(std::string_view bytes, Event& event) {
  while (!bytes.empty()) {
    EXPECT_EQ(take_varint(bytes), 1u << 3 | 2u) << "Summary.value";
    std::string_view value = take_bytes(bytes, take_varint(bytes));
    auto& [tag, number] = event.values.emplace_back();
    EXPECT_EQ(take_varint(value), 1u << 3 | 2u) << "Value.tag";
    tag = take_bytes(value, take_varint(value));
    EXPECT_EQ(take_varint(value), 2u << 3 | 5u) << "Value.simple_value";
    number = take<float>(value);
    EXPECT_TRUE(value.empty());
  }
}

Event parse_event(std::string_view bytes) {
  Event event;
  while (!bytes.empty()) {
    const std::uint64_t key = take_varint(bytes);
    if (key == (1u << 3 | 1u)) {
      event.seconds = take<double>(bytes);
    } else if (key == 2u << 3) {
      event.step = take_varint(bytes);
    } else {
      const std::string_view content = take_bytes(bytes, take_varint(bytes));
      if (key == (3u << 3 | 2u)) event.version = content;
      if (key == (5u << 3 | 2u)) parse_summary(content, event);
      if (key == (7u << 3 | 2u)) event.starts_session = content == "\x08\x01";
    }
  }
  return event;
}

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The events of a file, whose checksums are right.
std::vector<Event> events_of(const std::filesystem::path& path) {
  const auto masked = [](std::string_view bytes) {
    const std::uint32_t crc = crc32c(bytes);
    return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
  };
  const std::string all = read(path);
  std::string_view rest = all;
  std::vector<Event> events;
  while (!rest.empty()) {
    const std::string_view head = rest.substr(0, 8);
    const auto length = take<std::uint64_t>(rest);
    EXPECT_EQ(take<std::uint32_t>(rest), masked(head));
    const std::string_view message = take_bytes(rest, length);
    EXPECT_EQ(take<std::uint32_t>(rest), masked(message));
    events.push_back(parse_event(message));
  }
  return events;
}

class Figures : public testing::Test {
 protected:
  std::vector<std::filesystem::path> event_files() const {
    std::vector<std::filesystem::path> files;
    for (const auto& file : std::filesystem::directory_iterator(folder_))
      if (file.path().filename().string().starts_with("events.out.tfevents.")) files.push_back(file.path());
    return files;
  }
  /// The lines of the table, without the seconds.
  std::vector<std::string> table() const {
    std::istringstream text(read(std::filesystem::path(folder_) / "figures.csv"));
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line.substr(line.find(',') + 1));
    return lines;
  }

  TemporaryFolder temporary_;
  std::string folder_ = temporary_ / "runs/first";
};

TEST(FiguresChecksum, IsThatOfRfc3720) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
}

TEST_F(Figures, AreInBothFilesOnceWriteReturns) {
  const auto now = [] {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  };
  const double before = now();
  FigureWriter figures(folder_);
  figures.write(3, {{"train/loss", 0.1}, {"rate, say", 1e-9}});
  figures.write(std::uint64_t{1} << 40, {{"train/loss", -std::numeric_limits<double>::infinity()},
                                         {"none", std::numeric_limits<double>::quiet_NaN()}});
  // The writer is still there, as when its process is killed.
  EXPECT_EQ(table(),
            (std::vector<std::string>{"step,name,value", "3,\"train/loss\",0.1", "3,\"rate, say\",1e-09",
                                      "1099511627776,\"train/loss\",-inf", "1099511627776,\"none\",nan"}));
  ASSERT_EQ(event_files().size(), 1u);
  const std::vector<Event> events = events_of(event_files()[0]);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_TRUE(events[1].starts_session);
  EXPECT_EQ(events[1].step, 3u);
  EXPECT_EQ(events[2].step, 3u);
  EXPECT_EQ(events[2].values,
            (std::vector<std::pair<std::string, float>>{{"train/loss", 0.1f}, {"rate, say", 1e-9f}}));
  EXPECT_EQ(events[3].step, std::uint64_t{1} << 40);
  ASSERT_EQ(events[3].values.size(), 2u);
  EXPECT_EQ(events[3].values[0].second, -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(events[3].values[1].second));
  for (const Event& event : events) {
    EXPECT_GE(event.seconds, before);
    EXPECT_LE(event.seconds, now());
  }
}

TEST_F(Figures, OfARunThatGoesOnAreAppended) {
  FigureWriter(folder_).write(7, {{"loss", 2}});
  FigureWriter(folder_).write(5, {{"loss", 3}});
  EXPECT_EQ(table(), (std::vector<std::string>{"step,name,value", "7,\"loss\",2", "5,\"loss\",3"}));
  std::vector<std::uint64_t> starts;
  for (const auto& file : event_files()) {
    for (const Event& event : events_of(file))
      if (event.starts_session) starts.push_back(event.step);
  }
  EXPECT_EQ(starts, (std::vector<std::uint64_t>{7, 5})) << "what TensorBoard drops older figures from";
}

TEST_F(Figures, WithNamesThatTheFilesCannotHoldAreRefused) {
  FigureWriter figures(folder_);
  for (const char* name : {"", "two\nlines", "a \"quoted\" one", "\xC3\xA9"})
    EXPECT_THROW(figures.write(1, {{"loss", 1}, {name, 1}}), InvalidArgumentError) << name;
  EXPECT_EQ(table().size(), 1u);
  EXPECT_EQ(events_of(event_files()[0]).size(), 1u);
}

template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const SystemError& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(Figures, ThatADiskDoesNotTakeLeaveWholeFiles) {
  FigureWriter figures(folder_);
  figures.write(1, {{"loss", 1}});
  const std::string long_name(200, 'x');
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit less{.rlim_cur = 200, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &less);
  const std::string error = error_of([&] { figures.write(2, {{long_name, 2}}); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_DFL);
  EXPECT_EQ(error, "cannot write " + event_files()[0].string() + ": File too large [K405]");
  EXPECT_EQ(events_of(event_files()[0]).size(), 3u) << "nothing of step 2";
  figures.write(3, {{"loss", 3}});
  EXPECT_EQ(events_of(event_files()[0]).back().step, 3u);
  EXPECT_EQ(table().back(), "3,\"loss\",3");
}

TEST_F(Figures, NeedAFolderThatCanBeWritten) {
  std::ofstream(temporary_ / "runs") << "a file";
  EXPECT_EQ(error_of([&] { FigureWriter figures(folder_); }),
            "cannot write " + folder_ + ": Not a directory [K405]");
  const std::string taken = temporary_ / "taken";
  std::filesystem::create_directories(taken + "/figures.csv");
  EXPECT_EQ(error_of([&] { FigureWriter figures(taken); }),
            "cannot write " + taken + "/figures.csv: Is a directory [K405]");
}

}  // namespace
}  // namespace kolo::test::figures

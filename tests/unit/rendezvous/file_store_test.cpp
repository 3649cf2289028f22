// The file store with killed writers, foreign files and files that change during use.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "kolo/store.hpp"
#include "support/temporary_folder.hpp"
#include "watchdog.hpp"

namespace kolo {
namespace {

using std::chrono::seconds;

class FileStore : public RendezvousTest {
 protected:
  std::string content() const {
    std::ostringstream text;
    text << std::ifstream(path_, std::ios::binary).rdbuf();
    return text.str();
  }
  void write(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }

  test::TemporaryFolder folder_;
  const std::string path_ = folder_ / "store";
};

TEST_F(FileStore, SurvivesAWriterKilledAtAnyByte) {
  make_file_store(path_)->set("first", "1");
  const std::string before = content();
  make_file_store(path_)->set("second", "22");
  const std::string after = content();
  for (std::size_t length = 0; length < after.size(); ++length) {
    write(after.substr(0, length));
    const auto store = make_file_store(path_);
    EXPECT_EQ(store->add("sum", 1), 1) << "cut at byte " << length;
    EXPECT_EQ(make_file_store(path_)->get("sum", seconds(0)), "1") << "cut at byte " << length;
    const bool has_first = length >= before.size();
    EXPECT_EQ(store->wait({"first", "second"}, seconds(0)).size(), has_first ? 1u : 2u)
        << "cut at byte " << length;
  }
}

TEST_F(FileStore, AReaderWaitsOutATornRecordUntilAWriterMendsIt) {
  const auto reader = make_file_store(path_);
  reader->set("first", "1");
  std::ofstream(path_, std::ios::binary | std::ios::app) << std::string("\x01\x05\x00\x00", 4);
  EXPECT_EQ(reader->wait({"first", "second"}, std::chrono::milliseconds(20)),
            std::vector<std::string>{"second"});
  make_file_store(path_)->set("second", "2");
  EXPECT_EQ(reader->get("second", seconds(10)), "2");
}

TEST_F(FileStore, LeavesOtherFilesAlone) {
  for (const std::string text : {"#!/bin/sh\n", "kolo store 3\nsomething"}) {
    write(text);
    EXPECT_THROW(make_file_store(path_), RendezvousError);
    EXPECT_EQ(content(), text);
  }
}

TEST_F(FileStore, ReportsDamageInsteadOfGuessing) {
  make_file_store(path_)->set("key", "value");
  std::string bytes = content();
  bytes[bytes.size() - 10] ^= 1;
  write(bytes);
  EXPECT_THROW(make_file_store(path_), RendezvousError);
  EXPECT_EQ(content(), bytes);
}

TEST_F(FileStore, NoticesAFileEmptiedInUse) {
  const auto store = make_file_store(path_);
  store->set("key", "value");
  std::filesystem::resize_file(path_, 0);
  EXPECT_THROW(store->get("key", seconds(1)), RendezvousError);
  EXPECT_THROW(store->set("key", "value"), RendezvousError);
}

/// The descriptor of the open file in this process.
int descriptor_of(const std::string& path) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry, gone) == path) return std::stoi(entry.path().filename());
  }
  return -1;
}

TEST_F(FileStore, AReadErrorIsNotTheEndOfTheFile) {
  const auto store = make_file_store(path_);
  const int opened = descriptor_of(path_);
  ASSERT_GE(opened, 0);
  make_file_store(path_)->set("theirs", "1");
  const std::string before = content();
  const int unreadable = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(::dup2(unreadable, opened), 0);
  ::close(unreadable);
  EXPECT_THROW(store->get("theirs", seconds(0)), RendezvousError);
  EXPECT_THROW(store->set("ours", "2"), RendezvousError);
  EXPECT_EQ(content(), before);
}

TEST_F(FileStore, NamesThePathThatCannotBeOpened) {
  try {
    make_file_store("/nowhere/at/all");
    FAIL();
  } catch (const RendezvousError& error) {
    EXPECT_NE(std::string(error.what()).find("/nowhere/at/all"), std::string::npos) << error.what();
  }
}

TEST_F(FileStore, KilledProcessesLeaveItWhole) {
  const auto store = make_file_store(path_);
  for (int round = 0; round < 20; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto own = make_file_store(path_);
      for (;;) own->add("count", 1);
    }
    ::usleep(5000);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const std::int64_t count = store->add("count", 1);
    EXPECT_EQ(store->get("count", seconds(0)), std::to_string(count));
  }
}

}  // namespace
}  // namespace kolo

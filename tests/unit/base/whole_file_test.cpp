// Files that are replaced atomically.
#include "base/whole_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/unique_fd.hpp"
#include "support/temporary_folder.hpp"

namespace kolo {
namespace {

class WholeFile : public ::testing::Test {
 protected:
  Status write(const std::string& text) const { return write_whole_file(path_, text); }
  std::string content() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }
  std::ptrdiff_t files() const {
    return std::distance(std::filesystem::directory_iterator(folder_.path()), {});
  }

  test::TemporaryFolder folder_;
  const std::string path_ = folder_ / "file";
};

TEST_F(WholeFile, ReplacesTheOldOne) {
  for (const std::string text : {"long and old", "new"}) {
    ASSERT_TRUE(write(text).ok());
    EXPECT_EQ(content(), text);
    EXPECT_EQ(files(), 1);
  }
}

TEST_F(WholeFile, AnErrorLeavesTheOldOneAndNothingBeside) {
  ASSERT_TRUE(write("old").ok());
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit full{5, before.rlim_max};
  ::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &full);
  const Status refused = write("too long");
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_NE(refused.message().find(path_ + ": File too large"), std::string::npos) << refused.message();
  EXPECT_EQ(content(), "old");
  EXPECT_EQ(files(), 1);
  EXPECT_FALSE(write_whole_file(folder_ / "none/file", [](std::ostream&) {}).ok());
}

TEST_F(WholeFile, WhatIsNoPlainFileStaysWhatItIs) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const UniqueFd reader(::open(path_.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(write("text").ok());
  std::array<char, 8> got;
  EXPECT_EQ(::read(reader.get(), got.data(), got.size()), 4);
  EXPECT_TRUE(std::filesystem::is_fifo(path_));
}

}  // namespace
}  // namespace kolo

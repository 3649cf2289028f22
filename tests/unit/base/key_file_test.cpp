// The key file: the users that can read it.
#include "base/key_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "kolo/error.hpp"
#include "support/temporary_folder.hpp"

namespace kolo {
namespace {

class KeyFile : public ::testing::Test {
 protected:
  std::string write(const std::string& text, mode_t mode = 0600) {
    const std::string path = folder_ / "key";
    std::filesystem::remove(path);
    std::ofstream(path, std::ios::binary) << text;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }
  static void expect_refused(const std::string& path, const std::string& words) {
    const auto read = read_key_file(path);
    EXPECT_EQ(read.status().code(), Code::invalid_argument) << path;
    for (const std::string& said : {path, words}) {
      EXPECT_NE(read.status().message().find(said), std::string::npos) << read.status().message();
    }
  }

  test::TemporaryFolder folder_;
};

TEST_F(KeyFile, IsReadWithoutItsLineEnd) {
  for (const auto& [text, key] : {std::pair{"secret", "secret"},
                                  {"secret\n", "secret"},
                                  {"secret\r\n", "secret"},
                                  {" two words \n", " two words "}}) {
    for (const mode_t mode : {0600, 0400}) EXPECT_EQ(read_key_file(write(text, mode)).value_or_throw(), key);
  }
}

TEST_F(KeyFile, OthersMayNotReadIt) {
  for (const mode_t mode : {0604, 0644, 0660, 0666, 0602}) expect_refused(write("secret", mode), "chmod 600");
}

// As Kubernetes mounts a secret: links to a file of root that a group may read.
TEST_F(KeyFile, AGroupOfRootsChoiceMayReadWhatRootWrote) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root writes files of root";
  for (const mode_t mode : {0440, 0640}) {
    const std::string link = folder_ / "link";
    std::filesystem::remove(link);
    std::filesystem::create_symlink(write("secret", mode), link);
    EXPECT_EQ(read_key_file(link).value_or_throw(), "secret");
  }
  const std::string path = write("secret", 0600);
  ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
  expect_refused(path, "another user");
}

TEST_F(KeyFile, MustBeAKey) {
  expect_refused(folder_ / "none", "No such file");
  expect_refused(folder_.path(), "no regular file");
  expect_refused(write(""), "empty");
  expect_refused(write("\n"), "empty");
  expect_refused(write(std::string(4097, 'k')), "too long");
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_refused(pipe, "no regular file");
}

}  // namespace
}  // namespace kolo

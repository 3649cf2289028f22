#include "base/log.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "base/unique_fd.hpp"

namespace kolo {
namespace {

/// Redirects standard error to a pipe while it lives.
class PipedStderr {
 public:
  PipedStderr() : before_(dup(STDERR_FILENO)) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    reader_ = UniqueFd(ends[0]);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    fcntl(reader_.get(), F_SETFL, O_NONBLOCK);
  }
  ~PipedStderr() { dup2(before_.get(), STDERR_FILENO); }

  /// Fills the pipe completely.
  void fill() {
    fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK);
    while (write(STDERR_FILENO, "-", 1) == 1) continue;
    fcntl(STDERR_FILENO, F_SETFL, 0);
  }

  std::string read_all() {
    std::string all;
    char some[4096];
    for (ssize_t n; (n = read(reader_.get(), some, sizeof some)) > 0;) {
      all.append(some, static_cast<std::size_t>(n));
    }
    return all;
  }

  void close_reader() { reader_ = UniqueFd(); }

 private:
  UniqueFd before_;
  UniqueFd reader_;
};

TEST(Log, WaitsForNobodyWhoReadsItAndSaysWhatIsMissing) {
  PipedStderr piped;
  log().warn("first");
  EXPECT_EQ(piped.read_all(), "kolo warning: first\n");
  piped.fill();
  log().warn("second");
  log().warn("third");
  EXPECT_EQ(piped.read_all().find("second"), std::string::npos);
  log().warn("fourth");
  EXPECT_EQ(
      piped.read_all(),
      "kolo warning: 2 lines of this log lost: standard error took no more [K405]\nkolo warning: fourth\n");
}

TEST(Log, OutlivesWhoReadsIt) {
  PipedStderr piped;
  piped.close_reader();
  log().warn("to nobody");  // SIGPIPE would end this test
}

}  // namespace
}  // namespace kolo

// Under ulimit -f, a write fails with an error and without a signal.
#include "base/file_size_limit.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <functional>
#include <ostream>
#include <string>

#include "base/whole_file.hpp"
#include "support/temporary_folder.hpp"

namespace kolo {
namespace {

/// Runs in a child process, because the signal would end it.
void expect_zero(const std::function<int()>& body) {
  EXPECT_EXIT(
      {
        rlimit limit{};
        limit.rlim_cur = limit.rlim_max = 4096;
        ::setrlimit(RLIMIT_FSIZE, &limit);
        ::_exit(body());
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(FileSizeLimit, AFileThatIsTooLargeIsAnErrorThatNamesTheLimit) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "file";
  expect_zero([&] {
    const Status status =
        write_whole_file(path, [](std::ostream& file) { file << std::string(100'000, 'x'); });
    const bool is_named = status.message().find("ulimit -f allows files of 4096 bytes") != std::string::npos;
    return is_named && status.code() == Code::system ? 0 : 1;
  });
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(FileSizeLimit, ASignalOfTheProgramsOwnStays) {
  expect_zero([] {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    ::raise(SIGXFSZ);
    { const FileSizeLimit limit; }
    ::sigpending(&set);
    return sigismember(&set, SIGXFSZ) == 1 ? 0 : 1;
  });
}

}  // namespace
}  // namespace kolo

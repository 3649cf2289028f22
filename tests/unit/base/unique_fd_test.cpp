#include "base/unique_fd.hpp"

#include <gtest/gtest.h>

namespace kolo {
namespace {

TEST(UniqueFd, TakesNoNumberOfAStandardStream) {
  for (const int standard : {0, 1, 2}) {
    const int kept = ::dup(standard);
    ASSERT_GE(kept, 0);
    ::close(standard);
    const int opened = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    const UniqueFd fd(opened);
    const bool is_free = ::fcntl(standard, F_GETFD) == -1;
    ::dup2(kept, standard);
    ::close(kept);
    EXPECT_EQ(opened, standard);
    EXPECT_TRUE(is_free);
    EXPECT_GT(fd.get(), 2);
    EXPECT_EQ(::fcntl(fd.get(), F_GETFD), FD_CLOEXEC);
  }
}

TEST(UniqueFd, KeepsWhyThereIsNone) {
  const UniqueFd fd(::open("/nowhere", O_RDONLY));
  EXPECT_FALSE(fd.valid());
  EXPECT_EQ(errno, ENOENT);
}

}  // namespace
}  // namespace kolo

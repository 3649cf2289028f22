#include "net/peer_user.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/unique_fd.hpp"
#include "support/forbid.hpp"
#include "support/other_user.hpp"

namespace kolo::testing {
namespace {

class PeerUser : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    storage_.ss_family = static_cast<sa_family_t>(GetParam());
    if (GetParam() == AF_INET) {
      reinterpret_cast<sockaddr_in&>(storage_).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    } else {
      reinterpret_cast<sockaddr_in6&>(storage_).sin6_addr = in6addr_loopback;
    }
    listener_ = UniqueFd(::socket(GetParam(), SOCK_STREAM, 0));
    if (::bind(listener_.get(), at(), sizeof storage_) != 0) GTEST_SKIP() << "this host has no such address";
    ASSERT_EQ(::listen(listener_.get(), 9), 0);
    socklen_t length = sizeof storage_;
    ASSERT_EQ(::getsockname(listener_.get(), at(), &length), 0);
  }
  sockaddr* at() { return reinterpret_cast<sockaddr*>(&storage_); }
  UniqueFd dial() {
    UniqueFd fd(::socket(GetParam(), SOCK_STREAM, 0));
    if (::connect(fd.get(), at(), sizeof storage_) != 0) fd.reset();
    return fd;
  }
  UniqueFd accept() { return UniqueFd(::accept(listener_.get(), nullptr, nullptr)); }

  sockaddr_storage storage_{};
  UniqueFd listener_;
};

TEST_P(PeerUser, IsOneself) {
  const UniqueFd dialled = dial();
  const UniqueFd accepted = accept();
  EXPECT_TRUE(net::same_user(dialled.get()).ok()) << net::same_user(dialled.get()).message();
  EXPECT_TRUE(net::same_user(accepted.get()).ok()) << net::same_user(accepted.get()).message();
}

TEST_P(PeerUser, IsReadFromATableWhereTheKernelDoesNotAnswer) {
  const UniqueFd dialled = dial();
  const UniqueFd accepted = accept();
  constexpr int kNoSeccomp = 2;
  const auto look = [&] {
    if (!forbid(SYS_socket)) return kNoSeccomp;
    return net::same_user(dialled.get()).ok() && net::same_user(accepted.get()).ok() ? 0 : 1;
  };
  const pid_t child = ::fork();
  if (child == 0) ::_exit(look());
  int status = -1;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoSeccomp) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_P(PeerUser, IsNobodyOfWhatIsNotAcceptedOrClosed) {
  UniqueFd dialled = dial();
  EXPECT_FALSE(net::same_user(dialled.get()).ok()) << "taken for root's";
  const UniqueFd accepted = accept();
  dialled.reset();
  EXPECT_FALSE(net::same_user(accepted.get()).ok()) << "taken for root's";
  EXPECT_FALSE(net::same_user(listener_.get()).ok());
}

TEST_P(PeerUser, IsAnotherOne) {
  KOLO_NEEDS_ANOTHER_USER();
  const UniqueFd mine = dial();
  const int status = as_other_user([&] {
    const UniqueFd accepted = accept();
    const UniqueFd dialled = dial();
    const UniqueFd own = accept();
    return !net::same_user(accepted.get()).ok() && net::same_user(dialled.get()).ok() &&
           net::same_user(own.get()).ok();
  });
  EXPECT_EQ(status, 0);
  const auto is_their_own = [&] { return as_other_user([&] { return net::same_user(mine.get()).ok(); }); };
  EXPECT_NE(is_their_own(), 0);
}

INSTANTIATE_TEST_SUITE_P(Families, PeerUser, ::testing::Values(AF_INET, AF_INET6));

}  // namespace
}  // namespace kolo::testing

// Runs a function in a process of another user.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace kolo::testing {

inline constexpr uid_t kOtherUser = 54321;

/// Only root can become another user.
#define KOLO_NEEDS_ANOTHER_USER() \
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user"

/// The exit status of a forked child of that user: 0 if `body` returned true.
inline int as_other_user(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    ::_exit(::setgid(kOtherUser) == 0 && ::setuid(kOtherUser) == 0 && body() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

}  // namespace kolo::testing

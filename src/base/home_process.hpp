// HomeProcess: remembers which process made an object, to detect a forked child of it.
#pragma once

#include <cstdint>
#include <string_view>

#include <sys/types.h>

#include "base/status.hpp"

namespace kolo {

/// A member of an object that a forked child must not use. fork() copies memory but no threads, and copies
/// locks as they are held at that moment, so this check comes before any lock. It does not see children of
/// clone() and vfork(): those run no handlers of pthread_atfork() and only call exec.
class HomeProcess {
 public:
  HomeProcess();

  /// One load, and no system call.
  bool is_here() const noexcept { return generation_ == current_.generation; }
  /// For a forked child that uses `what`: Code::invalid_argument.
  Status refusal(std::string_view what) const;

 private:
  /// The number of forks between the program's first process and this one. Its cache line holds nothing else,
  /// so no write invalidates it.
  struct alignas(64) Current {
    Current();
    std::uint64_t generation = 0;
  };
  static Current current_;

  std::uint64_t generation_;
  pid_t id_;
};

}  // namespace kolo

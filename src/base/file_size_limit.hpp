// FileSizeLimit: turns a file beyond the process's limit (ulimit -f) into an error, instead of the signal
// that ends the process.
#pragma once

#include <csignal>

namespace kolo {

/// While it exists, a call of this thread that would make a file larger than the limit only fails with EFBIG.
class FileSizeLimit {
 public:
  FileSizeLimit() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &signal(), &before_);
  }
  ~FileSizeLimit() {
    constexpr timespec kNow{};
    if (!was_pending_) sigtimedwait(&signal(), nullptr, &kNow);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  static const sigset_t& signal() {
    static const sigset_t kSet = [] {
      sigset_t set;
      sigemptyset(&set);
      sigaddset(&set, SIGXFSZ);
      return set;
    }();
    return kSet;
  }

  sigset_t before_{};
  bool was_pending_ = false;
};

}  // namespace kolo

#include "base/service_thread.hpp"

#include <signal.h>

#include <system_error>
#include <utility>

#include "kolo/error.hpp"

namespace kolo {
namespace {

/// While it exists, signals are blocked in this thread. A thread made meanwhile inherits that.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF}) {
      sigdelset(&all, own);
    }
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

ServiceThread::ServiceThread(std::function<void()> run) {
  const NoSignals none;
  try {
    thread_ = std::make_unique<std::thread>(std::move(run));
  } catch (const std::system_error& error) {
    throw SystemError(
        "cannot start a thread (ulimit -u, or pids.max of the control group): " + error.code().message(), {});
  }
}

ServiceThread::~ServiceThread() {
  // In a forked child: the parent's thread object must not be touched.
  if (!home_.is_here()) static_cast<void>(thread_.release());
}

bool ServiceThread::is_here() const noexcept {
  return thread_ && thread_->joinable() && home_.is_here();
}

void ServiceThread::join() {
  if (is_here()) thread_->join();
}

void ServiceThread::detach() {
  if (is_here()) thread_->detach();
}

}  // namespace kolo

#include "base/service_thread.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <utility>

namespace kolo {
namespace {

TEST(ServiceThread, TakesNoneOfTheProgramsSignals) {
  sigset_t blocked;
  ServiceThread thread([&] { pthread_sigmask(SIG_BLOCK, nullptr, &blocked); });
  thread.join();
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD})
    EXPECT_EQ(sigismember(&blocked, signal), 1) << signal;
  for (const int signal : {SIGSEGV, SIGABRT}) EXPECT_EQ(sigismember(&blocked, signal), 0) << signal;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  EXPECT_EQ(sigismember(&blocked, SIGTERM), 0) << "its maker's are as before";
}

TEST(ServiceThread, AForkHasOnlyAPictureOfIt) {
  std::atomic<bool> stop{false};
  ServiceThread thread([&] { stop.wait(false); });
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);
    const bool here = thread.is_here();
    { const ServiceThread mine = std::move(thread); }  // neither waits nor ends the process
    ::_exit(here ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(thread.is_here());
  stop = true;
  stop.notify_all();
  thread.join();
  EXPECT_FALSE(thread.is_here());
}

}  // namespace
}  // namespace kolo

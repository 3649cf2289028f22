// Endpoints between real processes: death by SIGKILL, and reading another process's memory.
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cstring>
#include <functional>

#include "kolo/memory.hpp"
#include "support/forbid.hpp"
#include "unit/transport/support.hpp"

namespace kolo::testing {
namespace {

/// Rank 0 is this process. Rank 1 is a child process that runs `child` and exits with 0 if it returns true.
class Processes : public ::testing::TestWithParam<Variant> {
 protected:
  // alarm(2) instead of a watchdog thread, because only processes with one thread should fork.
  void SetUp() override { ::alarm(60); }
  void TearDown() override {
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      ::waitpid(child_, nullptr, 0);
    }
    ::alarm(0);
  }

  /// `prepare` runs in the child before it connects.
  void start(const std::function<bool(transport::Endpoint&)>& child,
             const std::function<bool()>& prepare = {}) {
    int pipe[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pipe), 0);
    const std::string job = new_job();
    child_ = ::fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) {
      ::alarm(60);
      ::close(pipe[0]);
      if (prepare && !prepare()) ::_exit(2);
      auto endpoint = join(1, pipe[1], job);
      ::_exit(endpoint && child(*endpoint) ? 0 : 1);
    }
    ::close(pipe[1]);
    endpoint_ = join(0, pipe[0], job);  // each test asserts that there is one
  }

  int exit_status() {
    int status = 0;
    ::waitpid(std::exchange(child_, -1), &status, 0);
    return status;
  }

  static std::unique_ptr<transport::Endpoint> join(int rank, int pipe, const std::string& job) {
    auto transport = make_transport(GetParam(), job, "key");
    if (!transport.ok()) return nullptr;
    const std::string mine = (*transport)->address();
    char theirs[1024];
    if (::send(pipe, mine.data(), mine.size(), 0) < 0) return nullptr;
    const ssize_t got = ::recv(pipe, theirs, sizeof theirs, 0);
    ::close(pipe);
    if (got <= 0) return nullptr;
    const transport::TransportPeer peer{1 - rank, std::string(theirs, static_cast<std::size_t>(got))};
    auto connected = transport::connect_all(**transport, rank, {&peer, 1}, Deadline::after(seconds(20)));
    if (!connected.ok()) {
      std::fprintf(stderr, "rank %d: %s\n", rank, connected.status().message().c_str());
      return nullptr;
    }
    return std::move(connected->front());
  }

  pid_t child_ = -1;
  std::unique_ptr<transport::Endpoint> endpoint_;
};

bool wait_for_death() {
  for (;;) ::pause();
}

TEST_P(Processes, AKilledReaderIsNoticedWithinASecond) {
  start([](transport::Endpoint&) { return wait_for_death(); });
  ASSERT_TRUE(endpoint_);
  const auto before = Clock::now();
  ::kill(child_, SIGKILL);
  EXPECT_EQ(error_of_write(*endpoint_).code(), Code::peer_lost);
  EXPECT_LT(Clock::now() - before, seconds(1));
}

TEST_P(Processes, AKilledWriterIsNoticedAfterItsLastByte) {
  const auto data = pattern(50'000, 1);
  start([&](transport::Endpoint& endpoint) {
    if (!send_all(endpoint, data).ok()) return false;
    ::kill(::getpid(), SIGKILL);
    return true;
  });
  ASSERT_TRUE(endpoint_);
  EXPECT_TRUE(WIFSIGNALED(exit_status()));
  std::vector<std::byte> in(data.size());
  const Status status = receive_all(*endpoint_, in);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(in == data);
  const auto before = Clock::now();
  const Status lost = error_of_read(*endpoint_);
  EXPECT_EQ(lost.code(), Code::peer_lost);
  EXPECT_NE(lost.message().find("closed by peer"), std::string::npos) << lost.message();
  EXPECT_LT(Clock::now() - before, seconds(1));
}

TEST_P(Processes, AStoppedPeerIsNotLost) {
  start([](transport::Endpoint& endpoint) {
    std::byte word;
    return receive_all(endpoint, {&word, 1}).ok() && send_all(endpoint, {&word, 1}).ok();
  });
  ASSERT_TRUE(endpoint_);
  ::kill(child_, SIGSTOP);
  std::byte word{7};
  ASSERT_TRUE(send_all(*endpoint_, {&word, 1}).ok());
  EXPECT_EQ(sleep_on(*endpoint_, false, milliseconds(300)).code(), Code::timeout);
  ::kill(child_, SIGCONT);
  EXPECT_TRUE(receive_all(*endpoint_, {&word, 1}).ok());
  EXPECT_EQ(exit_status(), 0);
}

TEST_P(Processes, MemoryIsPulledAcrossProcesses) {
  const auto data = pattern(1'500'001, 2);
  start([&](transport::Endpoint& endpoint) {
    SharedMemory shared(data.size());
    std::memcpy(shared.data(), data.data(), data.size());
    for (const std::byte* memory : {data.data(), static_cast<const std::byte*>(shared.data())}) {
      const auto range = endpoint.expose(memory, data.size()).value_or(transport::RemoteRange{~0ull, 0});
      if (!send_all(endpoint, std::as_bytes(std::span(&range, 1))).ok()) return false;
    }
    std::byte done;
    return receive_all(endpoint, {&done, 1}).ok();
  });
  ASSERT_TRUE(endpoint_);
  for (const bool shared : {false, true}) {
    transport::RemoteRange range;
    ASSERT_TRUE(receive_all(*endpoint_, std::as_writable_bytes(std::span(&range, 1))).ok());
    if (!endpoint_->can_pull() || (!shared && range.region == ~0ull)) {
      EXPECT_EQ(range.region, ~0ull);
      continue;
    }
    EXPECT_EQ(range.region != 0, shared);
    std::vector<std::byte> in(data.size());
    const Status status = endpoint_->fetch(range, in);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(in == data);
    const transport::RemoteRange beyond{range.region,
                                        shared ? data.size() + 4096 : 4096};  // nothing is mapped there
    EXPECT_FALSE(endpoint_->fetch(beyond, in).ok());
  }
  const std::byte done{1};
  ASSERT_TRUE(send_all(*endpoint_, {&done, 1}).ok());
  EXPECT_EQ(exit_status(), 0);
}

TEST_P(Processes, WhereOneMayNotReadBothPushPrivateMemory) {
  const auto expect_pushed = [](transport::Endpoint& endpoint) {
    const std::vector<std::byte> own(10'000);
    SharedMemory shared(10'000);
    const auto range = endpoint.expose(shared.data(), shared.size());
    return !endpoint.expose(own.data(), own.size()) && range.has_value() == endpoint.can_pull() &&
           (!range || range->region != 0);
  };
  start(
      [&](transport::Endpoint& endpoint) {
        std::byte done;
        return expect_pushed(endpoint) && receive_all(endpoint, {&done, 1}).ok();
      },
      [] { return forbid(SYS_process_vm_readv); });
  if (!endpoint_ && WEXITSTATUS(exit_status()) == 2) GTEST_SKIP() << "no seccomp here";
  ASSERT_TRUE(endpoint_);
  EXPECT_TRUE(expect_pushed(*endpoint_));
  const std::byte done{1};
  ASSERT_TRUE(send_all(*endpoint_, {&done, 1}).ok());
  EXPECT_EQ(exit_status(), 0);
}

TEST_P(Processes, PullingFromAKilledProcessIsAnError) {
  const auto data = pattern(100'000, 3);
  start([&](transport::Endpoint& endpoint) {
    const auto range = endpoint.expose(data.data(), data.size()).value_or(transport::RemoteRange{~0ull, 0});
    return send_all(endpoint, std::as_bytes(std::span(&range, 1))).ok() && wait_for_death();
  });
  ASSERT_TRUE(endpoint_);
  transport::RemoteRange range;
  ASSERT_TRUE(receive_all(*endpoint_, std::as_writable_bytes(std::span(&range, 1))).ok());
  ::kill(child_, SIGKILL);
  exit_status();
  std::vector<std::byte> in(data.size());
  const Status status = endpoint_->fetch(range, in);
  EXPECT_FALSE(status.ok());
  if (range.region == 0) {
    EXPECT_EQ(status.code(), Code::peer_lost) << status.message();
  }
}

TEST_P(Processes, ALongConversation) {
  start([](transport::Endpoint& endpoint) {
    for (int i = 0; i < 3000; ++i) {
      int word = 0;
      if (!receive_all(endpoint, std::as_writable_bytes(std::span(&word, 1))).ok() || word != i) return false;
      if (!send_all(endpoint, std::as_bytes(std::span(&word, 1))).ok()) return false;
    }
    return true;
  });
  ASSERT_TRUE(endpoint_);
  for (int i = 0; i < 3000; ++i) {
    int word = i;
    ASSERT_TRUE(send_all(*endpoint_, std::as_bytes(std::span(&word, 1))).ok());
    ASSERT_TRUE(receive_all(*endpoint_, std::as_writable_bytes(std::span(&word, 1))).ok());
    ASSERT_EQ(word, i);
  }
  EXPECT_EQ(exit_status(), 0);
}

INSTANTIATE_TEST_SUITE_P(All, Processes, ::testing::ValuesIn(variants_that_reach(transport::Reach::host)),
                         name_of_variant);

}  // namespace
}  // namespace kolo::testing

// Unauthenticated connections to the listening sockets: silent ones, ones that send data, many of them. They
// must not disturb the ranks.
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <cstring>

#include "base/unique_fd.hpp"
#include "net/handshake.hpp"
#include "support/other_user.hpp"
#include "transport/frame.hpp"
#include "transport/shm/address.hpp"
#include "transport/tcp/address.hpp"
#include "unit/transport/support.hpp"

namespace kolo::testing {
namespace {

class Strangers : public ::testing::TestWithParam<Variant> {
 protected:
  /// A connection to the transport's listener, without the key.
  static UniqueFd visit(const std::string& address) {
    if (GetParam().transport == "tcp") {
      const auto at = transport::tcp::Address::parse(address)->at.at(0);
      UniqueFd fd(::socket(at.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
      EXPECT_EQ(::connect(fd.get(), at.data(), at.size()), 0);
      return fd;
    }
    if (GetParam().transport == "shm")
      return visit_socket(SOCK_SEQPACKET, transport::shm::Address::parse(address)->socket);
    ADD_FAILURE() << "how does a stranger connect to " << address << "?";
    return {};
  }
  /// `name`: an abstract Unix address, without the leading zero byte.
  static UniqueFd visit_socket(int type, const std::string& name) {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::memcpy(at.sun_path + 1, name.data(), name.size());
    UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&at), length), 0);
    return fd;
  }
  static void say(const UniqueFd& fd, const std::string& words) {
    ::send(fd.get(), words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  /// Connects ranks 0 and 1 of `job` through the given transports, rank 0 after a delay. Returns the time
  /// that it took.
  static milliseconds connect(transport::Transport& zero, transport::Transport& one,
                              milliseconds later = milliseconds(0)) {
    const auto start = Clock::now();
    std::thread other([&] {
      const transport::TransportPeer peer{0, zero.address()};
      const auto connected = transport::connect_all(one, 1, {&peer, 1}, Deadline::after(seconds(30)));
      EXPECT_TRUE(connected.ok()) << connected.status().message();
    });
    std::this_thread::sleep_for(later);
    const transport::TransportPeer peer{1, one.address()};
    const auto connected = transport::connect_all(zero, 0, {&peer, 1}, Deadline::after(seconds(30)));
    EXPECT_TRUE(connected.ok()) << connected.status().message();
    other.join();
    return std::chrono::duration_cast<milliseconds>(Clock::now() - start);
  }

  Watchdog watchdog_{seconds(100)};
};

TEST_P(Strangers, SilentAndTalkativeOnesHoldNobodyUp) {
  auto zero = make_transport(GetParam(), "job", "key"), one = make_transport(GetParam(), "job", "key");
  ASSERT_TRUE(zero.ok() && one.ok());
  std::vector<UniqueFd> visitors;
  for (int i = 0; i < 60; ++i) visitors.push_back(visit((*zero)->address()));
  std::mt19937 random(1);
  for (int i = 10; i < 50; ++i) {
    std::string words(random() % 3000 + 1, '\0');
    for (char& c : words) c = static_cast<char>(random());
    if (i % 4 == 0) words = "GET / HTTP/1.1\r\n\r\n";
    if (i % 4 == 1)
      words = net::Handshake::dial({"job", "guessed", 1, net::Encryption::none, transport::kWireVersion}, 0)
                  .take_output();  // a valid start of a handshake
    say(visitors[i], words);
  }
  for (int i = 50; i < 60; ++i) visitors[i].reset();
  EXPECT_LT(connect(**zero, **one), seconds(3));
}

TEST_P(Strangers, MoreThanThereIsRoomForArePushedOut) {
  auto zero = make_transport(GetParam(), "job", "key"), one = make_transport(GetParam(), "job", "key");
  ASSERT_TRUE(zero.ok() && one.ok());
  std::vector<UniqueFd> visitors;
  for (int i = 0; i < 350; ++i) visitors.push_back(visit((*zero)->address()));
  EXPECT_LT(connect(**zero, **one), seconds(5));
}

TEST_P(Strangers, SlowOnesHoldNobodyUp) {
  auto zero = make_transport(GetParam(), "job", "key"), one = make_transport(GetParam(), "job", "key");
  ASSERT_TRUE(zero.ok() && one.ok());
  std::vector<UniqueFd> visitors;
  for (int i = 0; i < 100; ++i) visitors.push_back(visit((*zero)->address()));
  std::atomic<bool> stop{false};
  std::thread dripping([&] {
    const std::string words =
        net::Handshake::dial({"job", "guessed", 1, net::Encryption::none, transport::kWireVersion}, 0)
            .take_output();
    for (std::size_t i = 0; !stop; ++i) {
      for (const UniqueFd& fd : visitors) say(fd, words.substr(i % words.size(), 1));
      std::this_thread::sleep_for(milliseconds(5));
    }
  });
  EXPECT_LT(connect(**zero, **one), seconds(5));
  stop = true;
  dripping.join();
}

TEST(TcpStrangers, OfAnotherUserAreNoRanksWithoutAKey) {
  KOLO_NEEDS_ANOTHER_USER();
  auto zero = make_transport({"tcp", "tcp", ""}, "job", ""),
       one = make_transport({"tcp", "tcp", ""}, "job", "");
  ASSERT_TRUE(zero.ok() && one.ok());
  const transport::TransportPeer to_zero{0, (*zero)->address()}, to_one{1, (*one)->address()};
  const auto dialer = (*zero)->dialer(0, {&to_one, 1});
  const pid_t outsider = ::fork();
  if (outsider == 0) {  // it dials and listens as rank 1, which has not come yet
    ::alarm(30);
    if (::setuid(kOtherUser) == 0) {
      const auto connected = transport::connect_all(**one, 1, {&to_zero, 1}, Deadline::after(seconds(1)));
      if (connected.ok()) ::_exit(1);
      const bool is_told = connected.status().message().find("another user") != std::string::npos;
      ::_exit(is_told ? 0 : 2);
    }
    ::_exit(3);
  }
  dialer->dial(1);
  int status = -1;
  while (::waitpid(outsider, &status, WNOHANG) == 0) {
    EXPECT_TRUE(dialer->progress().empty()) << "an outsider is believed";
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(status, 0);
  EXPECT_NE(dialer->known(1).find("user"), std::string::npos) << dialer->known(1);
  const auto other = (*one)->dialer(1, {&to_zero, 1});
  other->dial(0);
  std::size_t connected = 0;
  for (const auto deadline = Deadline::after(seconds(10)); connected < 2 && !deadline.passed();)
    connected += dialer->progress().size() + other->progress().size();
  EXPECT_EQ(connected, 2u) << dialer->known(1) << "; " << other->known(0);
}

// Rank 0 closes its own connection when it has that of rank 1, perhaps in the middle of a handshake.
TEST(TcpStrangers, ARankThatDialledTooAndIsConnectedIsNoWarning) {
  auto zero = make_transport({"tcp", "tcp", ""}, "job", "key"),
       one = make_transport({"tcp", "tcp", ""}, "job", "key");
  ASSERT_TRUE(zero.ok() && one.ok());
  const transport::TransportPeer to_zero{0, (*zero)->address()}, to_one{1, (*one)->address()};
  const auto lower = (*zero)->dialer(0, {&to_one, 1}), higher = (*one)->dialer(1, {&to_zero, 1});
  // What rank 1 logs of a connection that claims to be rank 0 and is closed.
  const auto log_of_visit = [&, at = transport::tcp::Address::parse((*one)->address())->at.at(0)] {
    UniqueFd visitor(::socket(at.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(visitor.get(), at.data(), at.size()), 0);
    const std::string words =
        net::Handshake::dial({"job", "key", 0, net::Encryption::none, transport::kWireVersion}, 1)
            .take_output();
    EXPECT_EQ(::send(visitor.get(), words.data(), words.size(), MSG_NOSIGNAL), ssize_t(words.size()));
    ::testing::internal::CaptureStderr();
    for (int i = 0; i < 100; ++i) {
      EXPECT_TRUE(higher->progress().empty());
      if (i == 50) ::shutdown(visitor.get(), SHUT_WR);
      std::this_thread::sleep_for(milliseconds(1));
    }
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_NE(log_of_visit().find("closed by the other side"), std::string::npos);
  higher->dial(0);
  std::vector<std::unique_ptr<transport::Endpoint>> endpoints;
  for (const auto deadline = Deadline::after(seconds(10)); endpoints.size() < 2 && !deadline.passed();) {
    for (auto* dialer : {lower.get(), higher.get()}) {
      for (auto& connected : dialer->progress()) endpoints.push_back(std::move(connected.endpoint));
    }
  }
  ASSERT_EQ(endpoints.size(), 2u);
  EXPECT_EQ(log_of_visit(), "");
}

// The child has a copy of the unauthenticated socket, which stays open after this process has closed its own.
TEST(TcpStrangers, AForkThatLivesOnKeepsNobodyAwake) {
  auto zero = make_transport({"tcp", "tcp", ""}, "job", "key");
  ASSERT_TRUE(zero.ok());
  const transport::TransportPeer peer{1, (*zero)->address()};
  const auto dialer = (*zero)->dialer(0, {&peer, 1});
  const auto is_awake = [&](int ms) {
    pollfd entry{dialer->fd(), POLLIN, 0};
    return ::poll(&entry, 1, ms) > 0;
  };
  const auto at = transport::tcp::Address::parse((*zero)->address())->at.at(0);
  UniqueFd visitor(::socket(at.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(visitor.get(), at.data(), at.size()), 0);
  ASSERT_TRUE(is_awake(10'000));
  EXPECT_TRUE(dialer->progress().empty());
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  ::shutdown(visitor.get(), SHUT_RDWR);
  ASSERT_TRUE(is_awake(10'000));
  for (int i = 0; i < 3; ++i) dialer->progress();
  EXPECT_FALSE(is_awake(100));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they need descriptors of their own
TEST_P(Strangers, MoreThanThereAreDescriptorsArePushedOut) {
  auto zero = make_transport(GetParam(), "job", "key"), one = make_transport(GetParam(), "job", "key");
  ASSERT_TRUE(zero.ok() && one.ok());
  std::vector<UniqueFd> visitors;
  for (int i = 0; i < 100; ++i) visitors.push_back(visit((*zero)->address()));
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
  const int next = ::dup(0);
  ::close(next);
  const rlimit low{static_cast<rlim_t>(next) + 30, usual.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  // Both ranks share this process's descriptors, so rank 1 takes its own before the connections to rank 0 do.
  EXPECT_LT(connect(**zero, **one, milliseconds(200)), seconds(5));
  ::setrlimit(RLIMIT_NOFILE, &usual);
}
#endif

TEST_P(Strangers, ThoseWhoComeInARanksNameAreNotBelieved) {
  auto zero = make_transport(GetParam(), "job", "key"), one = make_transport(GetParam(), "job", "key");
  ASSERT_TRUE(zero.ok() && one.ok());
  std::atomic<bool> stop{false};
  std::thread impostor([&] {
    while (!stop) {
      const UniqueFd fd = visit((*zero)->address());
      say(fd, net::Handshake::dial({"job", "wrong", 1, net::Encryption::none, transport::kWireVersion}, 0)
                  .take_output());
      char answer[200];
      pollfd entry{fd.get(), POLLIN, 0};
      ::poll(&entry, 1, 100);
      ::recv(fd.get(), answer, sizeof answer, MSG_DONTWAIT);
      say(fd, std::string(40, 'p'));
    }
  });
  EXPECT_LT(connect(**zero, **one), seconds(5));
  stop = true;
  impostor.join();
}

// The kernel reports the user of a Unix socket, so the key and a false address do not help.
TEST(ShmStrangers, AnotherUserIsNotAdmittedWithTheRightKey) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  constexpr uid_t kNoStep = 65534;
  const Variant shm{"shm", "shm", ""};
  auto zero = make_transport(shm, "job", "key");
  ASSERT_TRUE(zero.ok());
  int calls[2];
  ASSERT_EQ(::pipe(calls), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setuid(kNoStep) != 0) ::_exit(2);
    auto one = make_transport(shm, "job", "key");
    if (!one.ok()) ::_exit(3);
    transport::shm::Address address = *transport::shm::Address::parse((*zero)->address());
    address.uid = std::to_string(kNoStep);
    const transport::TransportPeer peer{0, address.text()};
    ::write(calls[1], "", 1);
    const auto connected = transport::connect_all(**one, 1, {&peer, 1}, Deadline::after(milliseconds(700)));
    ::_exit(connected.ok() ? 1 : 0);
  }
  char word;
  ASSERT_EQ(::read(calls[0], &word, 1), 1);
  auto one = make_transport(shm, "job", "key");
  ASSERT_TRUE(one.ok());
  // The real rank 1 does not connect.
  const transport::TransportPeer peer{1, (*one)->address()};
  EXPECT_FALSE(transport::connect_all(**zero, 0, {&peer, 1}, Deadline::after(milliseconds(500))).ok());
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  ::close(calls[0]);
  ::close(calls[1]);
}

// A rank that has ended is not waited for until the deadline, whether it dials or is dialled.
TEST_P(Strangers, WhoHasEndedBeforeItWasConnectedIsNamedSoon) {
  for (const int ended : {0, 1}) {
    auto alive = make_transport(GetParam(), "job", "key"), dead = make_transport(GetParam(), "job", "key");
    ASSERT_TRUE(alive.ok() && dead.ok());
    const transport::TransportPeer peer{ended, (*dead)->address()};
    (*dead).reset();
    const auto start = Clock::now();
    const auto connected =
        transport::connect_all(**alive, 1 - ended, {&peer, 1}, Deadline::after(seconds(90)));
    ASSERT_FALSE(connected.ok());
    EXPECT_EQ(connected.status().context().peer, ended);
    EXPECT_LT(Clock::now() - start, seconds(30));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Strangers, ::testing::ValuesIn(variants_that_reach(transport::Reach::host)),
                         name_of_variant);

}  // namespace
}  // namespace kolo::testing

// The TCP store with unauthenticated and silent connections, wrong keys, and servers that start late or end.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <random>
#include <thread>

#include "base/deadline.hpp"
#include "base/unique_fd.hpp"
#include "kolo/store.hpp"
#include "net/handshake.hpp"
#include "net/socket.hpp"
#include "rendezvous/channel.hpp"
#include "rendezvous/tcp_client.hpp"
#include "rendezvous/tcp_server.hpp"
#include "support/other_user.hpp"
#include "watchdog.hpp"

namespace kolo {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::as_other_user;
using testing::kOtherUser;

std::uint16_t free_port() {
  return serve_tcp_store("127.0.0.1", 0, "")->port();
}

UniqueFd dial(std::uint16_t port) {
  const auto addresses = net::resolve("127.0.0.1", port).value_or_throw();
  return net::connect_to(addresses[0], Deadline::after(seconds(5))).value_or_throw();
}

class TcpStore : public RendezvousTest {
 protected:
  std::shared_ptr<Store> join() {
    return connect_tcp_store("127.0.0.1", server_->port(), "key", seconds(10));
  }
  void expect_healthy() {
    const auto store = join();
    const std::int64_t sum = store->add("health", 1);
    EXPECT_EQ(store->get("health", seconds(5)), std::to_string(sum));
  }

  std::unique_ptr<TcpStoreServer> server_ = serve_tcp_store("127.0.0.1", 0, "key");
};

TEST_F(TcpStore, AForkThatEndsLeavesTheServerToItsParent) {
  const pid_t child = ::fork();
  if (child == 0) {
    server_.reset();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  expect_healthy();
}

TEST_F(TcpStore, AForkThatUsesItsParentsConnectionGetsAnError) {
  const auto store = join();
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      store->set("stray", "value");
    } catch (const InvalidArgumentError&) {
      ::_exit(0);
    }
    ::_exit(1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  store->set("key", "value");
  EXPECT_EQ(store->get("key", seconds(5)), "value");
}

TEST(TcpStoreWithoutAKey, IsOfOneUser) {
  KOLO_NEEDS_ANOTHER_USER();
  const auto server = serve_tcp_store("127.0.0.1", 0, "");
  const auto client = connect_tcp_store("127.0.0.1", server->port(), "", seconds(10));
  const int status = as_other_user([&] {
    try {
      connect_tcp_store("127.0.0.1", server->port(), "", seconds(10));
      return false;
    } catch (const RendezvousError& error) {
      return std::string(error.what()).find("another user") != std::string::npos;
    }
  });
  EXPECT_EQ(status, 0);
  client->set("key", "value");
  EXPECT_EQ(client->get("key", seconds(5)), "value");
}

TEST(TcpStoreWithoutAKey, IsRefusedWhereOtherHostsReachIt) {
  EXPECT_THROW(serve_tcp_store("", 0, ""), InvalidArgumentError);
  EXPECT_THROW(connect_tcp_store("192.0.2.1", 29500, "", seconds(10)), InvalidArgumentError);
}

TEST(TcpStoreWithoutAKey, OfAnotherUserIsNotTrusted) {
  KOLO_NEEDS_ANOTHER_USER();
  const auto listener = net::listen_on(net::resolve("127.0.0.1", 0).value_or_throw()[0]);
  ASSERT_TRUE(listener.ok());
  const std::uint16_t port = net::local_port(listener.value().get());
  const pid_t child = ::fork();
  if (child == 0) {  // a forged server without the key
    ::alarm(30);
    if (::setuid(kOtherUser) != 0) ::_exit(1);
    pollfd entry{listener.value().get(), POLLIN, 0};
    ::poll(&entry, 1, -1);
    const UniqueFd fd(::accept(listener.value().get(), nullptr, nullptr));
    auto handshake = net::Handshake::accept(rendezvous::store_identity({}));
    std::byte bytes[net::Handshake::kMostBytes];
    while (!handshake.done()) {
      const ssize_t got = ::recv(fd.get(), bytes, handshake.wanted(), 0);
      if (got <= 0 || !handshake.feed(std::span(bytes).first(static_cast<std::size_t>(got))).ok()) ::_exit(0);
      const std::string words = handshake.take_output();
      ::send(fd.get(), words.data(), words.size(), MSG_NOSIGNAL);
    }
    ::_exit(2);  // the client has accepted the server
  }
  try {
    connect_tcp_store("127.0.0.1", port, "", seconds(10));
    ADD_FAILURE() << "believed";
  } catch (const RendezvousError& error) {
    EXPECT_NE(std::string(error.what()).find("user " + std::to_string(kOtherUser)), std::string::npos)
        << error.what();
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(TcpStore, AWrongKeyIsToldAtOnce) {
  const auto began = Clock::now();
  for (const char* key : {"", "KEY", "key "}) {
    try {
      connect_tcp_store("127.0.0.1", server_->port(), key, seconds(30));
      FAIL() << "accepted \"" << key << "\"";
    } catch (const RendezvousError& error) {
      EXPECT_NE(std::string(error.what()).find("KOLO_KEY"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(std::to_string(server_->port())), std::string::npos);
    }
  }
  EXPECT_LT(Clock::now() - began, seconds(10));
  expect_healthy();
}

/// Serves and joins over loopback, each side with its own credentials. Returns the client's error.
std::string meet(const net::Credentials& server, const net::Credentials& client) {
  const auto at = net::resolve("127.0.0.1", 0).value_or_throw()[0];
  const auto serving = rendezvous::serve_store(at, server).value_or_throw();
  const auto found =
      rendezvous::find_store({"127.0.0.1", serving->port(), 1, client}, Deadline::after(seconds(20)));
  if (!found.ok()) return found.status().message();
  found.value()->set("key", std::string(300'000, 'v'));
  EXPECT_EQ(found.value()->get("key", seconds(5)), std::string(300'000, 'v'));
  return "";
}

TEST(TcpStoreSecurity, EncryptedWhereBothWantIt) {
  ::alarm(60);
  const auto tls = net::Tls::with_key().value_or_throw();
  EXPECT_EQ(meet({"key", "", tls}, {"key", "", tls}), "");
}

TEST(TcpStoreSecurity, BothSidesHearWhyNot) {
  ::alarm(60);
  const auto tls = net::Tls::with_key().value_or_throw();
  struct Case {
    net::Credentials server, client;
    const char* said;
  };
  for (const Case& one :
       {Case{{"key", "", tls}, {"key"}, "KOLO_TLS"}, Case{{"key"}, {"key", "", tls}, "KOLO_TLS"},
        Case{{"key"}, {"other"}, "KOLO_KEY"}, Case{{"key"}, {""}, "KOLO_KEY"},
        Case{{""}, {"key"}, "KOLO_KEY"}, Case{{"key", "a"}, {"key", "b"}, "another job"}}) {
    ::testing::internal::CaptureStderr();
    const std::string client = meet(one.server, one.client);
    const std::string server = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(client.find(one.said), std::string::npos) << client;
    EXPECT_NE(server.find(one.said), std::string::npos) << server;
    EXPECT_NE(server.find("127.0.0.1"), std::string::npos) << server;
  }
}

TEST(TcpStoreSecurity, WhoBreaksTlsIsToldSo) {
  ::alarm(60);
  const net::Credentials both = {"key", "", net::Tls::with_key().value_or_throw()};
  const auto server =
      rendezvous::serve_store(net::resolve("127.0.0.1", 0).value_or_throw()[0], both).value_or_throw();
  const UniqueFd fd = dial(server->port());
  const Deadline deadline = Deadline::after(seconds(5));
  net::Handshake handshake = net::Handshake::dial(rendezvous::store_identity(both), 0);
  while (!handshake.done()) {
    ASSERT_TRUE(net::send_all(fd.get(), handshake.take_output(), deadline).ok());
    std::byte answer[net::Handshake::kMostBytes];
    const auto got = net::receive_some(fd.get(), std::span(answer).first(handshake.wanted()), deadline);
    ASSERT_TRUE(got.ok()) << got.status().message();
    ASSERT_TRUE(handshake.feed(std::span(answer).first(*got)).ok());
  }
  const std::string record("\x16\x03\x01\x00\x05hello", 10);  // a complete TLS record, but not a greeting
  ASSERT_TRUE(net::send_all(fd.get(), record, deadline).ok());
  std::string alert(1, '\0');
  ASSERT_TRUE(net::receive_all(fd.get(), alert, deadline).ok()) << "only closed";
  EXPECT_EQ(alert, "\x15");
}

TEST(TcpStoreSecurity, WithoutAKeyOnlyLoopbackIsServedAndJoined) {
  ::alarm(60);
  net::SocketAddress everywhere;
  for (const net::SocketAddress& address : net::resolve("", 0).value_or_throw()) {
    if (address.family() == AF_INET) everywhere = address;
  }
  const auto refused = rendezvous::serve_store(everywhere, {});
  ASSERT_FALSE(refused.ok());
  for (const char* variable : {"KOLO_KEY", "KOLO_KEY_FILE", "KOLO_INSECURE"}) {
    EXPECT_NE(refused.status().message().find(variable), std::string::npos) << refused.status().message();
  }
  EXPECT_TRUE(rendezvous::serve_store(everywhere, {"key"}).ok());
  EXPECT_TRUE(rendezvous::serve_store(everywhere, {"", "", nullptr, true}).ok());
  // An address without a host (RFC 5737). The test is fast only if no connection is attempted.
  const auto began = Clock::now();
  const auto joined = rendezvous::find_store({"192.0.2.1", 29500}, Deadline::after(seconds(30)));
  EXPECT_NE(joined.status().message().find("KOLO_KEY"), std::string::npos) << joined.status().message();
  EXPECT_LT(Clock::now() - began, seconds(5));
}

TEST_F(TcpStore, GarbageIsHarmless) {
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    const UniqueFd stranger = dial(server_->port());
    std::string bytes(random() % 300, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    ::send(stranger.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  expect_healthy();
}

TEST_F(TcpStore, StrangersWhoSayNothingDoNotKeepOthersOut) {
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 400; ++i) silent.push_back(dial(server_->port()));
  expect_healthy();
}

/// Many connections from another process that are silent or send single bytes, until this object is
/// destroyed.
class Flood {
 public:
  Flood(std::uint16_t port, int count, bool drips) {
    int ready[2];
    if (::pipe(ready) != 0) std::abort();
    child_ = ::fork();
    if (child_ == 0) {
      ::alarm(60);
      const std::string hello = net::Handshake::dial(rendezvous::store_identity({"key"}), 0).take_output();
      std::vector<UniqueFd> visitors;
      for (int i = 0; i < count; ++i) visitors.push_back(dial(port));
      if (::write(ready[1], "", 1) != 1) ::_exit(1);
      for (std::size_t round = 0;; ++round) {
        for (const UniqueFd& fd : visitors) {
          if (drips) ::send(fd.get(), &hello[round % hello.size()], 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        }
        ::usleep(20'000);
      }
    }
    char word;
    if (::read(ready[0], &word, 1) != 1) std::abort();
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~Flood() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }

 private:
  pid_t child_ = -1;
};

TEST_F(TcpStore, SlowStrangersHoldNobodyUp) {
  const auto before = join();
  const Flood flood(server_->port(), 300, true);
  const auto began = Clock::now();
  for (int i = 1; i <= 20; ++i) EXPECT_EQ(before->add("n", 1), i);
  expect_healthy();
  EXPECT_LT(Clock::now() - began, seconds(5));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they need descriptors of their own
TEST(TcpStoreServer, MoreStrangersThanDescriptorsAreDroppedForRanks) {
  ::alarm(60);
  int ports[2];
  ASSERT_EQ(::pipe(ports), 0);
  const pid_t child = ::fork();  // the limit applies only to the server
  if (child == 0) {
    const rlimit low{60, 60};
    const auto server = serve_tcp_store("127.0.0.1", 0, "key");
    const std::uint16_t port = server->port();
    if (::setrlimit(RLIMIT_NOFILE, &low) != 0 || ::write(ports[1], &port, sizeof port) < 0) ::_exit(1);
    ::alarm(60);
    for (;;) ::pause();
  }
  std::uint16_t port = 0;
  ASSERT_EQ(::read(ports[0], &port, sizeof port), static_cast<ssize_t>(sizeof port));
  {
    const auto before = connect_tcp_store("127.0.0.1", port, "key", seconds(10));
    const Flood flood(port, 200, false);
    const auto began = Clock::now();
    EXPECT_EQ(before->add("n", 1), 1);
    EXPECT_EQ(connect_tcp_store("127.0.0.1", port, "key", seconds(10))->add("n", 1), 2);
    EXPECT_LT(Clock::now() - began, seconds(5)) << "waited for the strangers' time to be over";
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ports[0]);
  ::close(ports[1]);
}
#endif

TEST_F(TcpStore, GarbageAfterTheProofEndsThatConnectionOnly) {
  const auto before = join();
  for (const std::uint32_t length : {0u, 1u, 0xffffffffu, 1u << 21}) {
    const Deadline deadline = Deadline::after(seconds(5));
    rendezvous::Greeting greeting = rendezvous::Greeting::exchange(dial(server_->port()), {"key"}, deadline);
    ASSERT_TRUE(greeting.channel.valid()) << greeting.reason;
    const std::string head(reinterpret_cast<const char*>(&length), sizeof(length));
    ASSERT_TRUE(greeting.channel.send(head + "?", deadline).ok());
    std::string more(1, '\0');
    EXPECT_EQ(greeting.channel.receive(more, deadline).code(), Code::peer_lost) << length;
  }
  EXPECT_EQ(before->add("still", 1), 1);
  expect_healthy();
}

TEST_F(TcpStore, ClientsThatVanishWhileWaitingAreForgotten) {
  for (int i = 0; i < 50; ++i) {
    auto store = join();
    EXPECT_EQ(store->wait({"never"}, milliseconds(1)).size(), 1u);
  }
  std::thread waiting([this] { EXPECT_EQ(join()->get("late", seconds(30)), "1"); });
  join()->set("late", "1");
  waiting.join();
}

TEST(TcpStoreClient, WaitsForAServerThatComesLate) {
  ::alarm(60);
  const std::uint16_t port = free_port();
  std::unique_ptr<TcpStoreServer> server;
  std::thread late([&] {
    std::this_thread::sleep_for(milliseconds(300));
    server = serve_tcp_store("127.0.0.1", port, "key");
  });
  EXPECT_EQ(connect_tcp_store("127.0.0.1", port, "key", seconds(30))->add("n", 3), 3);
  late.join();
}

TEST(TcpStoreClient, NamesTheAddressThatNobodyServes) {
  ::alarm(60);
  const std::uint16_t port = free_port();
  try {
    connect_tcp_store("127.0.0.1", port, "key", milliseconds(200));
    FAIL();
  } catch (const RendezvousError& error) {
    EXPECT_NE(std::string(error.what()).find("127.0.0.1:" + std::to_string(port)), std::string::npos)
        << error.what();
  }
  EXPECT_THROW(connect_tcp_store("no-such-host.invalid", port, "", milliseconds(100)), RendezvousError);
}

TEST(TcpStoreClient, IsNotHeldUpByAPortThatSaysNothing) {
  ::alarm(60);
  const auto address = net::resolve("127.0.0.1", 0).value_or_throw()[0];
  const UniqueFd silent = net::listen_on(address).value_or_throw();
  const auto began = Clock::now();
  EXPECT_THROW(connect_tcp_store("127.0.0.1", net::local_port(silent.get()), "", milliseconds(300)),
               RendezvousError);
  EXPECT_LT(Clock::now() - began, seconds(10));
}

TEST(TcpStoreClient, SaysSoWhenTheServerGoes) {
  ::alarm(60);
  auto server = serve_tcp_store("127.0.0.1", 0, "key");
  const auto store = connect_tcp_store("127.0.0.1", server->port(), "key", seconds(10));
  std::thread waiting([&] { EXPECT_THROW(store->get("never", seconds(50)), RendezvousError); });
  std::this_thread::sleep_for(milliseconds(100));
  server.reset();
  waiting.join();
  EXPECT_THROW(store->set("key", "value"), RendezvousError);
}

TEST(TcpStoreServer, SaysWhichAddressItCannotBind) {
  ::alarm(60);
  const auto server = serve_tcp_store("127.0.0.1", 0, "");
  try {
    (void)serve_tcp_store("127.0.0.1", server->port(), "");
    FAIL();
  } catch (const RendezvousError& error) {
    EXPECT_NE(std::string(error.what()).find("127.0.0.1:" + std::to_string(server->port())),
              std::string::npos);
  }
}

TEST(TcpStoreServer, ServesAllInterfacesAndIpv6) {
  ::alarm(60);
  const auto everywhere = serve_tcp_store("", 0, "key");
  EXPECT_EQ(connect_tcp_store("127.0.0.1", everywhere->port(), "key", seconds(10))->add("n", 1), 1);
  if (!net::listen_on(net::resolve("::1", 0).value_or_throw()[0]).ok())
    GTEST_SKIP() << "this host has no IPv6";
  const auto six = serve_tcp_store("::1", 0, "key");
  const auto store = connect_tcp_store("::1", six->port(), "key", seconds(10));
  EXPECT_EQ(store->describe(), "tcp://[::1]:" + std::to_string(six->port()));
  const auto bracketed = connect_tcp_store("[::1]", six->port(), "key", seconds(10));
  EXPECT_EQ(bracketed->describe(), store->describe());
}

TEST(Resolve, LocalhostIsLoopbackWithoutAskingTheResolver) {
  const auto named = net::resolve("localhost", 80).value_or_throw();
  const auto four = net::resolve("127.0.0.1", 80).value_or_throw();
  const auto six = net::resolve("::1", 80).value_or_throw();
  ASSERT_EQ(named.size(), 2);
  EXPECT_EQ(named[0], four[0]);
  EXPECT_EQ(named[1], six[0]);
}

TEST(FindStore, PassesOverStrangersAndOtherJobs) {
  ::alarm(60);
  // Three consecutive ports: a silent server, another job's store, this job's store.
  for (int attempt = 0; attempt < 50; ++attempt) {
    const auto first = net::resolve("127.0.0.1", 0).value_or_throw()[0];
    const UniqueFd silent = net::listen_on(first).value_or_throw();
    const std::uint16_t port = net::local_port(silent.get());
    if (port > 65000) continue;
    try {
      const auto other = serve_tcp_store("127.0.0.1", static_cast<std::uint16_t>(port + 1), "other");
      const auto ours = serve_tcp_store("127.0.0.1", static_cast<std::uint16_t>(port + 2), "ours");
      const auto store =
          rendezvous::find_store({"127.0.0.1", port, 16, {"ours"}}, Deadline::after(seconds(30)))
              .value_or_throw();
      EXPECT_EQ(store->describe(), "tcp://127.0.0.1:" + std::to_string(port + 2));
      return;
    } catch (const RendezvousError&) {
      continue;  // another process uses one of the ports
    }
  }
  FAIL() << "no three free ports in a row";
}

}  // namespace
}  // namespace kolo

// tcp addresses: parsing, and the addresses that ranks dial.
#include "transport/tcp/address.hpp"

#include "unit/transport/support.hpp"

namespace kolo::testing {
namespace {

using transport::tcp::Address;

std::vector<std::string> dialable(const std::string& from, const std::string& to) {
  const auto a = Address::parse(from), b = Address::parse(to);
  EXPECT_TRUE(a && b) << from << " " << to;
  std::vector<std::string> texts;
  for (const net::SocketAddress& address : transport::tcp::candidates(*a, *b))
    texts.push_back(address.text());
  return texts;
}

using Texts = std::vector<std::string>;

TEST(TcpAddress, TextGoesRoundTrip) {
  for (const char* text : {"10.0.0.1:1", "[::1]:65535", "[fd00::1:2]:4000", "127.0.0.1:80"}) {
    const auto address = net::SocketAddress::parse(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(address->text(), text);
  }
  for (const char* text :
       {"", "10.0.0.1", "10.0.0.1:0", "10.0.0.1:65536", "10.0.0.1:-1", "10.0.0.1:1x", "::1:80",
        "[10.0.0.1]:80", "[::1]80", "[::1", "localhost:80", "10.0.0.256:80", "[fe80::1%lo]:80"}) {
    EXPECT_FALSE(net::SocketAddress::parse(text)) << text;
  }
}

TEST(TcpAddress, LoopbackOnlyWithinOneHost) {
  const std::string here = "host=1;at=10.0.0.1:1,[fd00::1]:1,127.0.0.1:1,[::1]:1";
  const std::string beside = "host=1;at=10.0.0.1:2,127.0.0.1:2";
  const std::string container = "host=2;at=172.17.0.2:3,127.0.0.1:3";
  const std::string elsewhere = "host=3;at=10.0.0.9:4,[fd00::9]:4,127.0.0.1:4";
  EXPECT_EQ(dialable(here, beside), (Texts{"127.0.0.1:2", "10.0.0.1:2"}));
  EXPECT_EQ(dialable(here, container), (Texts{"172.17.0.2:3"}));
  EXPECT_EQ(dialable(here, elsewhere), (Texts{"10.0.0.9:4", "[fd00::9]:4"}));
  EXPECT_EQ(dialable(beside, elsewhere), (Texts{"10.0.0.9:4"})) << "no IPv6 of its own";
}

TEST(TcpAddress, ReachingIsSymmetric) {
  const std::string all[] = {
      "host=1;at=10.0.0.1:1,127.0.0.1:1",
      "host=1;at=127.0.0.1:1",
      "host=2;at=127.0.0.1:1",
      "host=3;at=[fd00::1]:1",
      "host=3;at=[::1]:1",
      "host=4;at=10.0.0.1:1,[fd00::1]:1",
  };
  for (const std::string& one : all) {
    for (const std::string& other : all) {
      EXPECT_EQ(dialable(one, other).empty(), dialable(other, one).empty()) << one << " " << other;
    }
  }
}

TEST(TcpAddress, InterfacesThatAreNotThereAreRefused) {
  for (const char* interface : {"no-such-interface", "192.0.2.199", "300.1.1.1", "lo0:9"}) {
    const auto made = transport::make_tcp_transport({"job", "key", interface});
    ASSERT_FALSE(made.ok()) << interface;
    EXPECT_NE(made.status().message().find(interface), std::string::npos) << made.status().message();
  }
}

TEST(TcpAddress, OnlyTheInterfaceThatWasNamedListens) {
  const auto made = transport::make_tcp_transport({"job", "key", "127.0.0.1"});
  ASSERT_TRUE(made.ok());
  const auto address = Address::parse(made.value()->address());
  ASSERT_TRUE(address);
  ASSERT_EQ(address->at.size(), 1u);
  EXPECT_EQ(address->at[0].host(), "127.0.0.1");
  // The same port of another address of this host is closed.
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const auto other = net::SocketAddress::parse("127.0.0.2:" + std::to_string(address->at[0].port()));
  EXPECT_NE(::connect(fd, other->data(), other->size()), 0);
  ::close(fd);
}

}  // namespace
}  // namespace kolo::testing

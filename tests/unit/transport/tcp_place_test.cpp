// The addresses at which a rank listens: as configured, or those of the interface that leads to its peers.
#include "transport/tcp/place.hpp"

#include "unit/transport/support.hpp"

namespace kolo::testing {
namespace {

using transport::tcp::LocalAddress;
using transport::tcp::Place;

std::vector<LocalAddress> a_host() {
  std::vector<LocalAddress> here;
  for (const auto& [host, interface] : {std::pair{"127.0.0.1", "lo"},
                                        {"::1", "lo"},
                                        {"192.168.1.5", "eth0"},
                                        {"10.77.3.4", "ib0"},
                                        {"fd77::3:4", "ib0"},
                                        {"10.78.0.1", "ib1"}}) {
    here.push_back({*net::SocketAddress::parse_host(host), interface});
  }
  return here;
}

std::string hosts_of(const Place& place) {
  std::string text;
  for (const net::SocketAddress& address : place.at) text += (text.empty() ? "" : " ") + address.host();
  return text;
}

TEST(TcpPlace, AsNamed) {
  const auto here = a_host();
  for (const auto& [named, hosts] : {std::pair{"ib0", "10.77.3.4 fd77::3:4"},
                                     {"eth0", "192.168.1.5"},
                                     {"10.78.0.1", "10.78.0.1"},
                                     {"fd77::3:4", "fd77::3:4"},
                                     {"[fd77::3:4]", "fd77::3:4"},
                                     {"127.0.0.7", "127.0.0.7"},
                                     {"10.77.0.0/16", "10.77.3.4"},
                                     {"10.76.0.0/14", "10.77.3.4 10.78.0.1"},
                                     {"10.77.3.4/32", "10.77.3.4"},
                                     {"fd77::/64", "fd77::3:4"},
                                     {"::/0", "::1 fd77::3:4"}}) {
    const auto place = place_named(named, here);
    ASSERT_TRUE(place.ok()) << place.status().message();
    EXPECT_EQ(hosts_of(place.value()), hosts) << named;
  }
}

TEST(TcpPlace, WhatIsNotHereIsAnErrorThatListsWhatIs) {
  for (const char* named : {"eth1", "10.77.3.5", "10.79.0.0/16", "fd78::/64", "10.77.0.0/33", "10.77.0.0/",
                            "eth0/8", "fd77::/129", "10.77.3.4:80"}) {
    const auto place = place_named(named, a_host());
    ASSERT_FALSE(place.ok()) << named;
    EXPECT_EQ(place.status().code(), Code::invalid_argument);
    for (const char* said : {named, "lo (127.0.0.1, ::1), eth0 (192.168.1.5), ib0 (10.77.3.4, fd77::3:4)"}) {
      EXPECT_NE(place.status().message().find(said), std::string::npos) << place.status().message();
    }
  }
}

TEST(TcpPlace, AStoreOnLoopbackMeansOneHost) {
  for (const char* host : {"127.0.0.1", "localhost", "::1"}) {
    const auto place = place_towards(host, a_host());
    ASSERT_TRUE(place.ok());
    EXPECT_EQ(hosts_of(place.value()), "127.0.0.1 ::1") << host;
  }
}

// This machine's own addresses: each leads to itself, through the interface that it belongs to.
TEST(TcpPlace, OneInterfaceThatLeadsToTheStore) {
  const auto here = transport::tcp::local_addresses().value_or_throw();
  for (const LocalAddress& one : here) {
    if (one.address.is_loopback()) continue;
    const auto place = place_towards(one.address.host(), here).value_or_throw();
    EXPECT_EQ(hosts_of(place), one.address.host());
    EXPECT_NE(place.why.find(one.interface), std::string::npos) << place.why;
    EXPECT_NE(place.why.find("the store at " + one.address.host()), std::string::npos) << place.why;
  }
  auto anywhere = place_towards("", here);
  if (anywhere.ok()) {
    EXPECT_FALSE(anywhere->at.empty());
    EXPECT_FALSE(anywhere->why.empty());
  }
}

TEST(TcpPlace, WithoutAKeyOnlyLoopback) {
  transport::TransportOptions options{"job", "", ""};
  options.store_host = "192.0.2.1";
  const auto made = transport::make_tcp_transport(options);
  ASSERT_TRUE(made.ok()) << made.status().message();
  const auto address = transport::tcp::Address::parse(made.value()->address());
  ASSERT_TRUE(address);
  for (const net::SocketAddress& at : address->at) EXPECT_TRUE(at.is_loopback()) << at.text();
  for (const LocalAddress& one : transport::tcp::local_addresses().value_or_throw()) {
    if (one.address.is_loopback()) continue;
    options.interface = one.address.host();
    options.insecure = false;
    const auto refused = transport::make_tcp_transport(options);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.status().message().find("KOLO_KEY"), std::string::npos) << refused.status().message();
    options.insecure = true;
    EXPECT_TRUE(transport::make_tcp_transport(options).ok());
  }
}

}  // namespace
}  // namespace kolo::testing

// The heartbeat in a transport's options sets the system's own probes on its connections.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "unit/transport/support.hpp"

namespace kolo::testing {
namespace {

int option_of(int fd, int level, int name) {
  int value = -1;
  socklen_t length = sizeof value;
  return ::getsockopt(fd, level, name, &value, &length) == 0 ? value : -1;
}

TEST(TcpHeartbeat, SetsTheProbesOfItsConnections) {
  for (const auto& [heartbeat, probes, idle] :
       {std::tuple{seconds(0), 0, -1}, {seconds(20), 1, 40}, {seconds(60), 1, 120}}) {
    transport::TransportOptions options{new_job(), "key", "127.0.0.1"};
    options.heartbeat = heartbeat;
    auto low = transport::make_tcp_transport(options).value_or_throw();
    auto high = transport::make_tcp_transport(options).value_or_throw();
    const transport::TransportPeer to_low{0, low->address()}, to_high{1, high->address()};
    const Deadline deadline = Deadline::after(seconds(20));
    std::thread other([&] { EXPECT_TRUE(transport::connect_all(*high, 1, {&to_low, 1}, deadline).ok()); });
    auto connected = transport::connect_all(*low, 0, {&to_high, 1}, deadline);
    other.join();
    ASSERT_TRUE(connected.ok()) << connected.status().message();
    const int fd = connected->front()->fd();
    EXPECT_EQ(option_of(fd, SOL_SOCKET, SO_KEEPALIVE), probes);
    if (idle > 0) {
      EXPECT_EQ(option_of(fd, IPPROTO_TCP, TCP_KEEPIDLE), idle);
    }
  }
}

}  // namespace
}  // namespace kolo::testing

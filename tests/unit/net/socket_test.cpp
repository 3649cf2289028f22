// Where sockets listen.
#include "net/socket.hpp"

#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>

namespace kolo::net::test {
namespace {

TEST(ListenOn, TakesTheFirstFreePortOfTheRange) {
  const SocketAddress address = resolve("127.0.0.1", 0).value_or_throw().front();
  auto held = listen_on(address);
  ASSERT_TRUE(held.ok()) << held.status().message();
  const std::uint16_t first = local_port(held->get());
  const auto last = static_cast<std::uint16_t>(first > 65000 ? first : first + 20);

  const auto none = listen_on(address, {first, first});
  EXPECT_EQ(none.status().code(), Code::invalid_argument);
  EXPECT_NE(none.status().message().find("no port of KOLO_PORTS=" + std::to_string(first)),
            std::string::npos);
  if (last > first) {
    auto next = listen_on(address, {first, last});
    ASSERT_TRUE(next.ok()) << next.status().message();
    EXPECT_GT(local_port(next->get()), first);
    EXPECT_LE(local_port(next->get()), last);
  }

  *held = UniqueFd();
  auto again = listen_on(address, {first, last});
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(local_port(again->get()), first);
}

// Both may bind the port before one of them listens. No connection of another program begins at this address.
TEST(ListenOn, OfTwoAtOnceOneHasThePortAndTheOtherFindsItTaken) {
  SocketAddress address = resolve("127.77.0.1", 0).value_or_throw().front();
  address.set_port(local_port(listen_on(address).value_or_throw().get()));
  std::barrier ready(2);
  for (int round = 0; round < 500; ++round) {
    std::array<Status, 2> ends;
    std::array<UniqueFd, 2> sockets;
    const auto listen = [&](std::size_t one) {
      ready.arrive_and_wait();
      auto fd = listen_on(address);
      ends[one] = fd.status();
      if (fd.ok()) sockets[one] = std::move(*fd);
    };
    std::thread other(listen, 1);
    listen(0);
    other.join();
    ASSERT_NE(sockets[0].valid(), sockets[1].valid());
    const Status& refused = ends[sockets[0].valid() ? 1 : 0];
    ASSERT_TRUE(is_taken(refused)) << refused.message();
  }
}

}  // namespace
}  // namespace kolo::net::test

// Where sockets listen.
#include "net/socket.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

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

}  // namespace
}  // namespace kolo::net::test

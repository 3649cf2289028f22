// What tells that a rank has ended although another process listens at its port.
#include "transport/tcp/address.hpp"
#include "unit/transport/support.hpp"

namespace kolo::testing {
namespace {

TEST(TcpProcessMark, APortThatAnotherProcessHasTakenIsAsGoodAsClosed) {
  transport::TransportOptions options{"job", "key", "127.0.0.1"};
  const auto here = transport::make_tcp_transport(options).value_or_throw();
  auto there = transport::make_tcp_transport(options).value_or_throw();
  const transport::TransportPeer peer{1, there->address()};
  const std::uint16_t port = transport::tcp::Address::parse(peer.address)->at.at(0).port();
  options.ports = {port, port};
  {
    const auto dialer = here->dialer(0, {&peer, 1});
    dialer->dial(1);
    EXPECT_EQ(dialer->unreachable_for(1).count(), 0);
  }
  there.reset();
  const auto other = transport::make_tcp_transport(options);
  ASSERT_TRUE(other.ok()) << other.status().message();
  const auto dialer = here->dialer(0, {&peer, 1});
  dialer->dial(1);
  EXPECT_GT(dialer->unreachable_for(1).count(), 0) << dialer->known(1);
}

}  // namespace
}  // namespace kolo::testing

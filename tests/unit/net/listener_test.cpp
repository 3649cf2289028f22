// Listener: which connections are taken, and which strangers are dropped for them.
#include "net/listener.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <deque>
#include <thread>

#include "net/handshake.hpp"
#include "net/socket.hpp"

namespace kolo {
namespace {

class ListenerTest : public ::testing::Test, protected net::Listener::Owner {
 protected:
  Status admit(int) const override { return admitted_; }
  void accepted(UniqueFd fd) override {
    ++taken_;
    strangers_.push_back(std::move(fd));
  }
  std::size_t strangers() const override { return strangers_.size(); }
  std::size_t most_strangers() const override { return most_; }
  void drop_strangers(std::size_t count) override {
    EXPECT_LE(count, strangers_.size());
    strangers_.erase(strangers_.begin(), strangers_.begin() + static_cast<std::ptrdiff_t>(count));
  }

  net::Listener listen(int most_at_once) {
    auto socket = net::listen_on(*net::SocketAddress::parse_host("127.0.0.1")).value_or_throw();
    address_ = *net::SocketAddress::local(socket.get());
    return net::Listener("the test", std::move(socket), most_at_once);
  }
  void visit(int count) {
    for (int i = 0; i < count; ++i)
      visitors_.push_back(
          net::connect_to(address_, Deadline::after(std::chrono::seconds(5))).value_or_throw());
  }
  static bool is_ready(int fd, int ms) {
    pollfd entry{fd, POLLIN, 0};
    return ::poll(&entry, 1, ms) > 0;
  }

  net::SocketAddress address_;
  std::vector<UniqueFd> visitors_;
  std::deque<UniqueFd> strangers_;  // oldest first
  std::size_t most_ = 256;
  int taken_ = 0;
  Status admitted_;
};

TEST_F(ListenerTest, TheOldestStrangersMakeRoomForNewOnes) {
  net::Listener listener = listen(1000);
  most_ = 3;
  visit(5);
  ASSERT_TRUE(is_ready(listener.fd(), 1000));
  listener.accept(*this);
  EXPECT_EQ(taken_, 5);
  EXPECT_EQ(strangers_.size(), 3u);
  EXPECT_TRUE(is_ready(visitors_[1].get(), 1000)) << "the second is closed";
  EXPECT_FALSE(is_ready(visitors_[2].get(), 0)) << "the third is not";
}

TEST_F(ListenerTest, AFloodWaitsInTheSystemsQueue) {
  net::Listener listener = listen(4);
  visit(10);
  for (int i = 0; i < 3; ++i) listener.accept(*this);
  EXPECT_EQ(taken_, 4);
  EXPECT_FALSE(is_ready(listener.fd(), 0)) << "its owner would spin";
  ASSERT_NE(listener.next_time(), Clock::time_point::max());
  std::this_thread::sleep_until(listener.next_time());
  listener.accept(*this);
  EXPECT_EQ(taken_, 8);
}

TEST_F(ListenerTest, AProcessThatIsNotAdmittedIsTold) {
  net::Listener listener = listen(1000);
  admitted_ = Status(Code::rendezvous, "a process of another user");
  visit(1);
  ASSERT_TRUE(is_ready(listener.fd(), 1000));
  listener.accept(*this);
  EXPECT_EQ(taken_, 0);
  std::string reason(net::Handshake::refusal_of_user().size(), '\0');
  EXPECT_TRUE(net::receive_all(visitors_[0].get(), reason, Deadline::after(std::chrono::seconds(5))).ok());
  EXPECT_EQ(reason, net::Handshake::refusal_of_user());
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they need descriptors of their own
TEST_F(ListenerTest, WithoutDescriptorsHalfOfTheStrangersAreDroppedAndElseAllWait) {
  net::Listener listener = listen(1000);
  visit(20);
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
  const auto leave = [&](int descriptors) {
    const int next = ::dup(0);
    ::close(next);
    const rlimit low{static_cast<rlim_t>(next + descriptors), usual.rlim_max};
    return ::setrlimit(RLIMIT_NOFILE, &low) == 0;
  };
  ASSERT_TRUE(leave(8));
  listener.accept(*this);
  EXPECT_EQ(taken_, 20);
  EXPECT_LE(strangers_.size(), 8u);
  const auto trusted = std::exchange(strangers_, {});
  ASSERT_TRUE(leave(0));
  visitors_.resize(19);  // room for the next visitor's own descriptor
  visit(1);
  listener.accept(*this);
  EXPECT_EQ(taken_, 20);
  EXPECT_FALSE(listener.trouble().empty());
  EXPECT_FALSE(is_ready(listener.fd(), 0)) << "its owner would spin";
  ::setrlimit(RLIMIT_NOFILE, &usual);
  std::this_thread::sleep_until(listener.next_time());
  listener.accept(*this);
  EXPECT_EQ(taken_, 21);
}
#endif

}  // namespace
}  // namespace kolo

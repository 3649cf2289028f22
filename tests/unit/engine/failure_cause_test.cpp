// Two things fail at once: the cause that a peer has told is reported, not the consequence that is seen
// first.
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "engine/engine.hpp"
#include "support/require.hpp"
#include "transport/self_endpoint.hpp"
#include "transport/tcp/endpoint.hpp"

namespace kolo::test {
namespace {

constexpr int kCause = 1;
constexpr int kConsequence = 2;
constexpr std::uint64_t kEarlyBytes = transport::kShortMessageBytes + 1;
constexpr std::size_t kBegun = 100;  // bytes of the first early message

/// A peer that is gone: the first read notices, and `meanwhile` happens at that moment.
class GonePeer final : public transport::Endpoint {
 public:
  explicit GonePeer(std::function<void()> meanwhile) : meanwhile_(std::move(meanwhile)) {}

  std::string_view transport() const override { return "gone"; }
  std::string describe() const override { return "gone"; }
  Result<std::size_t> write(std::span<const iovec>) override { return gone(); }
  Result<std::size_t> read(std::span<std::byte>) override {
    std::exchange(meanwhile_, [] {})();
    return gone();
  }
  bool polls_are_free() const override { return false; }
  int fd() const override { return readable_.get(); }
  bool arm(bool) override { return false; }
  void disarm() override {}
  Status drain() override { return {}; }

 private:
  static Status gone() { return Status(Code::peer_lost, "it is gone"); }

  std::function<void()> meanwhile_;
  UniqueFd readable_{::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)};
};

void append(std::vector<std::byte>& bytes, transport::FrameHeader header,
            std::span<const std::byte> payload = {}) {
  header.bytes = std::max<std::uint64_t>(header.bytes, payload.size());
  const auto head = std::as_bytes(std::span(&header, 1));
  bytes.insert(bytes.end(), head.begin(), head.end());
  bytes.insert(bytes.end(), payload.begin(), payload.end());
}

void say(int fd, std::span<const std::byte> bytes) {
  const auto sent = ::send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  require(sent == static_cast<ssize_t>(bytes.size()), "the socket takes less");
}

/// What a peer sends that has told the cause behind some early messages.
std::vector<std::byte> words_of_peer(int early_messages) {
  std::vector<std::byte> words;
  for (int k = 0; k < early_messages; ++k) {
    transport::FrameHeader early;
    early.type = transport::FrameType::eager;
    early.tag.sequence = static_cast<std::uint64_t>(k) + 1;
    append(words, early, std::vector<std::byte>(kEarlyBytes));
  }
  transport::FrameHeader abort;
  abort.tag.message = static_cast<std::uint32_t>(engine::ControlKind::abort);
  append(words, abort, engine::encode({Code::peer_lost, kCause, "the cause"}));
  return words;
}

// The engine has just read less than it had room for from the peer that tells the cause. Then it finds that
// another peer is gone, and the rest comes. The next read of the first peer must ask the system.
TEST(FailureCause, ThatHasComeIsReadBeforeAConsequenceIsTold) {
  for (int attempt = 0; attempt < 200; ++attempt) {
    const auto words = words_of_peer(attempt % 2 == 0 ? 1 : 18);
    const auto begun = std::span(words).first(sizeof(transport::FrameHeader) + kBegun);
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    UniqueFd peer(ends[1]);
    say(peer.get(), begun);
    std::vector<std::unique_ptr<transport::Endpoint>> endpoints;
    endpoints.push_back(std::make_unique<transport::SelfEndpoint>());
    endpoints.push_back(
        std::make_unique<transport::tcp::TcpEndpoint>(UniqueFd(ends[0]), std::chrono::seconds(30)));
    endpoints.push_back(
        std::make_unique<GonePeer>([&] { say(peer.get(), std::span(words).subspan(begun.size())); }));
    engine::EngineOptions options;
    options.heartbeat = std::chrono::seconds(30);
    engine::Engine engine(0, std::move(endpoints), std::move(options));
    while (!engine.is_gone(kConsequence))
      engine.receive_recovery([](const auto&) { return false; }, {}, Deadline::never());
    EXPECT_TRUE(engine.is_blamed(kCause)) << "attempt " << attempt;
    peer.reset();
  }
}

}  // namespace
}  // namespace kolo::test

// When other ranks of the host may see that this rank sleeps.
#include "engine/peers.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "transport/self_endpoint.hpp"

namespace kolo::engine {
namespace {

class Deaf final : public PeersListener {
 public:
  void on_mismatch(transport::Link&, const transport::Tag&, const transport::Signature&,
                   const transport::Signature&) override {}
  void on_unexpected(transport::Link&, const transport::Tag&, const transport::Signature&) override {}
  void on_control(transport::Link&, std::uint32_t, std::span<const std::byte>) override {}
  void on_arrived(Peer&) override {}
  void on_connected(Peer&, const Status&) override {}
  void on_broken(Peer&) override {}
};

/// A peer on this host that says nothing.
class SilentLocalPeer final : public transport::Endpoint, private transport::LocalPeer {
 public:
  explicit SilentLocalPeer(std::span<std::byte> own) : own_(own) {}

  std::string_view transport() const override { return "silent"; }
  std::string describe() const override { return "silent"; }
  Result<std::size_t> write(std::span<const iovec>) override { return std::size_t{0}; }
  Result<std::size_t> read(std::span<std::byte>) override { return std::size_t{0}; }
  bool polls_are_free() const override { return true; }
  int fd() const override { return -1; }
  bool arm(bool) override { return true; }
  void disarm() override {}
  Status drain() override { return {}; }
  LocalPeer* local_peer() override { return this; }

 private:
  std::span<std::byte> own_segment() override { return own_; }
  std::span<std::byte> segment() override { return own_; }
  void ring() override {}
  std::optional<transport::RemoteRange> share(const void*, std::size_t) override { return std::nullopt; }
  std::byte* reach(const transport::RemoteRange&, std::size_t) override { return nullptr; }
  const Status& trouble() const override { return fine_; }

  std::span<std::byte> own_;
  Status fine_;
};

// A publisher rings the peers whose number is odd, once for each number. A rank that naps waits for a counter
// instead of the bell: it ends its nap with disarm() and has announced no sleep.
TEST(Peers, AreToldOfEverySleepAndOfNoNap) {
  // All zero is an empty segment. Most of its pages are never touched.
  constexpr std::size_t kBytes = sizeof(shared_memory::Segment);
  void* const mapped =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  const std::span own(static_cast<std::byte*>(mapped), kBytes);
  const std::atomic<std::uint32_t>& asleep = shared_memory::Segment::in(own).asleep;
  std::vector<std::unique_ptr<transport::Endpoint>> endpoints;
  endpoints.push_back(std::make_unique<transport::SelfEndpoint>());
  endpoints.push_back(std::make_unique<SilentLocalPeer>(own));
  Deaf deaf;
  MemoryPool memory;
  const std::vector<std::string> hosts;
  Peers peers(0, std::move(endpoints), {}, hosts, deaf, memory);
  std::uint32_t last = 0;
  for (int naps = 0; naps < 4; ++naps) {
    for (int i = 0; i < naps; ++i) {
      peers.disarm();
      EXPECT_EQ(asleep % 2, 0U) << "awake after " << i + 1 << " naps";
    }
    peers.announce_sleep();
    EXPECT_EQ(asleep % 2, 1U) << "asleep after " << naps << " naps";
    EXPECT_NE(asleep, last) << "a new sleep";
    last = asleep;
    peers.disarm();
    EXPECT_EQ(asleep % 2, 0U);
  }
  ::munmap(mapped, kBytes);
}

}  // namespace
}  // namespace kolo::engine

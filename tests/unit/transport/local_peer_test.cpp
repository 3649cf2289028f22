// The segments of ranks of one host: memory of the size that the ranks ask for.
#include "transport/local_peer.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "unit/transport/support.hpp"

namespace kolo::testing {
namespace {

constexpr int kRanks = 3;

void expect_filled(std::span<const std::byte> segment, std::byte byte) {
  EXPECT_TRUE(std::ranges::all_of(segment, [&](std::byte there) { return there == byte; }));
}

TEST(LocalPeers, MapEachOthersSegments) {
  const Watchdog watchdog(seconds(60));
  constexpr std::size_t kBytes = 100'000;  // no whole number of pages
  Group group = connect_group(kShm, kRanks, {.segment_bytes = std::vector<std::size_t>(kRanks, kBytes)});
  ASSERT_TRUE(group.ok());
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::span own = group.at(rank, (rank + 1) % kRanks).local_peer()->own_segment();
    const std::span same = group.at(rank, (rank + 2) % kRanks).local_peer()->own_segment();
    EXPECT_EQ(own.data(), same.data());
    EXPECT_EQ(own.size(), kBytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(own.data()) % transport::kSegmentAlignment, 0u);
    expect_filled(own, std::byte{0});
    std::ranges::fill(own, static_cast<std::byte>(rank + 1));
  }
  const auto data = pattern(100'000, 1);  // through the rings, which lie beside the segments
  for (int rank = 0; rank < kRanks; ++rank) {
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer == rank) continue;
      ASSERT_TRUE(send_all(group.at(rank, peer), data).ok());
      std::vector<std::byte> in(data.size());
      ASSERT_TRUE(receive_all(group.at(peer, rank), in).ok());
      EXPECT_EQ(in, data);
      const std::span segment = group.at(rank, peer).local_peer()->segment();
      EXPECT_EQ(segment.size(), kBytes);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(segment.data()) % transport::kSegmentAlignment, 0u);
      expect_filled(segment, static_cast<std::byte>(peer + 1));
    }
  }
}

TEST(LocalPeers, AreNoneWithoutSegments) {
  const Watchdog watchdog(seconds(60));
  Group group = connect_group(kShm, 2, {.segment_bytes = {0, 0}});
  ASSERT_TRUE(group.ok());
  EXPECT_EQ(group.at(0, 1).local_peer(), nullptr);
  const auto data = pattern(100'000, 1);
  ASSERT_TRUE(send_all(group.at(0, 1), data).ok());
  std::vector<std::byte> in(data.size());
  ASSERT_TRUE(receive_all(group.at(1, 0), in).ok());
  EXPECT_EQ(in, data);
}

// The first rank to learn of it closes the connection, so the other rank may know only that.
TEST(LocalPeers, DoNotConnectWithSegmentsOfDifferentSizes) {
  const Watchdog watchdog(seconds(60));
  const auto difference = [](std::size_t theirs, std::size_t own) {
    return "its shared segment has " + std::to_string(theirs) + " bytes, and this rank's has " +
           std::to_string(own);
  };
  for (const std::size_t other : {std::size_t{0}, std::size_t{8192}}) {
    const Group group = connect_group(kShm, 2, {.segment_bytes = {4096, other}});
    std::string said;
    for (const Status& error : group.errors) {
      EXPECT_EQ(error.code(), Code::rendezvous);
      said += error.message() + "\n";
    }
    EXPECT_TRUE(said.find(difference(4096, other)) != std::string::npos ||
                said.find(difference(other, 4096)) != std::string::npos)
        << said;
  }
}

}  // namespace
}  // namespace kolo::testing

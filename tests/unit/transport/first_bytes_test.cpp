// What two shm endpoints exchange before they use their rings, and that little needs no memory.
#include <dirent.h>
#include <sys/stat.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "unit/transport/support.hpp"

namespace kolo::testing {
namespace {

std::span<const std::byte> first_of(const std::vector<std::byte>& data, std::size_t bytes) {
  return std::span(data).first(bytes);
}

/// Reads as a rank does that polls memory and asks for no readable socket.
std::vector<std::byte> poll_for(transport::Endpoint& endpoint, std::size_t bytes) {
  std::vector<std::byte> in(bytes);
  std::size_t done = 0;
  for (const auto deadline = Deadline::after(seconds(20)); done < bytes && !deadline.passed();) {
    const auto got = endpoint.read(std::span(in).subspan(done));
    EXPECT_TRUE(got.ok()) << got.status().message();
    if (!got.ok()) break;
    done += *got;
  }
  in.resize(done);
  return in;
}

/// Bytes of the memory that ranks of this process share with each other.
std::size_t shared_bytes() {
  std::size_t bytes = 0;
  std::set<ino_t> seen;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    const std::string target = std::filesystem::read_symlink(entry.path(), ignored).string();
    if (target.find("memfd:kolo-segment") == std::string::npos) continue;
    struct stat info {};
    if (::stat(entry.path().c_str(), &info) != 0 || !seen.insert(info.st_ino).second) continue;
    bytes += static_cast<std::size_t>(info.st_blocks) * 512;
  }
  return bytes;
}

TEST(FirstBytes, AreFoundByReadsAlone) {
  const Watchdog watchdog(seconds(60));
  Group group = connect_group(kShm, 3);
  ASSERT_TRUE(group.ok());
  const auto data = pattern(64, 1);
  for (int message = 0; message < 4; ++message) {
    for (const int peer : {1, 2}) {
      ASSERT_TRUE(send_all(group.at(0, peer), data).ok());
      EXPECT_EQ(poll_for(group.at(peer, 0), data.size()), data) << message << " to " << peer;
    }
  }
}

TEST(FirstBytes, ComeBeforeThoseOfTheRing) {
  const Watchdog watchdog(seconds(60));
  const auto data = pattern(8000, 2);
  const std::vector<std::vector<std::size_t>> writes = {
      {1, 1, 1}, {1024, 1, 5000}, {1024, 1024, 1024}, {1025, 10, 10}, {10, 5000, 10}, {8000}, {3, 1025, 3}};
  for (const auto& sizes : writes) {
    for (const bool is_read_in_small_parts : {false, true}) {
      Group group = connect_group(kShm, 2);
      ASSERT_TRUE(group.ok());
      std::size_t sent = 0;
      for (const std::size_t bytes : sizes) {
        const iovec part{const_cast<std::byte*>(data.data() + sent), bytes};
        const auto wrote = group.at(1, 0).write({&part, 1});
        ASSERT_TRUE(wrote.ok() && *wrote == bytes);
        sent += bytes;
      }
      std::vector<std::byte> in;
      while (is_read_in_small_parts && in.size() < sent) {
        const auto part = poll_for(group.at(0, 1), std::min<std::size_t>(700, sent - in.size()));
        ASSERT_FALSE(part.empty());
        in.insert(in.end(), part.begin(), part.end());
      }
      if (!is_read_in_small_parts) in = poll_for(group.at(0, 1), sent);
      EXPECT_TRUE(std::ranges::equal(in, first_of(data, sent)));
    }
  }
}

TEST(FirstBytes, AreReadBehindTheEndOfThePeer) {
  const Watchdog watchdog(seconds(60));
  const auto data = pattern(100, 3);
  for (const int messages : {0, 1, 2, 3}) {
    for (const bool polls : {false, true}) {
      Group group = connect_group(kShm, 2);
      ASSERT_TRUE(group.ok());
      for (int i = 0; i < messages; ++i) ASSERT_TRUE(send_all(group.at(1, 0), data).ok());
      group.endpoints[1].clear();
      transport::Endpoint& left = group.at(0, 1);
      for (int i = 0; i < messages; ++i) {
        std::vector<std::byte> in(data.size());
        if (polls) {
          in = poll_for(left, data.size());
        } else {
          ASSERT_TRUE(receive_all(left, in).ok());
        }
        EXPECT_EQ(in, data);
      }
      Status error;
      while (polls && error.ok()) {
        std::byte byte;
        error = left.read({&byte, 1}).status();
      }
      if (!polls) error = error_of_read(left);
      EXPECT_EQ(error.message(), "Connection closed by peer") << messages;
      EXPECT_EQ(error.code(), Code::peer_lost);
      EXPECT_EQ(error_of_write(left).code(), Code::peer_lost);
    }
  }
}

TEST(FirstBytes, OfPairsThatSayLittleTakeNoMemory) {
  const Watchdog watchdog(seconds(60));
  constexpr int kRanks = 6;
  Group group = connect_group(kShm, kRanks);
  ASSERT_TRUE(group.ok());
  const auto data = pattern(500, 4);
  const auto all_say = [&] {
    for (int from = 0; from < kRanks; ++from) {
      for (int to = 0; to < kRanks; ++to) {
        if (from == to) continue;
        ASSERT_TRUE(send_all(group.at(from, to), data).ok());
        EXPECT_EQ(poll_for(group.at(to, from), data.size()), data);
        transport::Endpoint& sleeper = group.at(to, from);
        EXPECT_TRUE(sleeper.arm(false));
        sleeper.disarm();
      }
    }
  };
  for (int message = 0; message < 2; ++message) all_say();
  const std::size_t before = shared_bytes();
  EXPECT_LE(before, kRanks * std::size_t{64} << 10) << "more than the first page of each segment";
  all_say();
  const std::size_t now = shared_bytes();
  EXPECT_GE(now, before + kRanks * (kRanks - 1) * std::size_t{4096}) << "a page of each ring";
}

}  // namespace
}  // namespace kolo::testing

// A rank passes memory that cannot be read or written: errors blame it and no other rank.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "multiprocess/processes.hpp"
#include "support/require.hpp"
#include "support/transports.hpp"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kBytes = 4 << 20;
constexpr std::size_t kGoodBytes = (1 << 20) + (256 << 10);  // ends within a segment
constexpr int kUnmapped = -1;
constexpr int kCulprit = 1;

/// Memory whose last pages have `protection`.
std::byte* make_memory(int protection) {
  void* data = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(data != MAP_FAILED, "mmap");
  auto* const bytes = static_cast<std::byte*>(data);
  std::byte* const end = bytes + kGoodBytes;
  const std::size_t rest = kBytes - kGoodBytes;
  const int failed = protection == kUnmapped ? ::munmap(end, rest) : ::mprotect(end, rest, protection);
  require(failed == 0, "mprotect or munmap");
  return bytes;
}

class Memory : public ::testing::TestWithParam<const char*> {
 protected:
  /// Rank 1 sends to, or receives from, rank 0 with such memory; rank 2 only waits for both.
  static void expect_blame(int protection, bool sends) {
    Processes processes({.size = 3, .transports = GetParam()}, [&](Communicator& c) {
      const int allowed = PROT_READ | PROT_WRITE;
      const Buffer data(make_memory(c.rank() == kCulprit ? protection : allowed), kBytes, DType::uint8);
      const bool is_sender = (c.rank() == kCulprit) == sends;
      Work receive;
      if (c.rank() < 2 && !is_sender) receive = c.recv_async(data, 1 - c.rank());
      c.barrier();  // kolo itself stores a message that comes before its receive
      if (c.rank() < 2 && is_sender) c.send(data, 1 - c.rank());
      receive.wait();
      c.barrier();
    });
    const bool is_stream = !transport::find_transport(GetParam())->pulls;
    const auto ends = processes.collect(20s);
    for (int rank = 0; rank < 3; ++rank) {
      const RankEnd& end = ends[static_cast<std::size_t>(rank)];
      EXPECT_EQ(end.code, 1) << "rank " << rank << ", signal " << end.signal << ": " << end.error;
      EXPECT_EQ(end.blamed, kCulprit) << "rank " << rank << ": " << end.error;
      // A message in a stream whose memory faults in its middle closes the stream. Rank 0 sees the close
      // before it receives a reason, and may report it to rank 2 before rank 1 does.
      const bool may_see_only_the_end = sends && rank != kCulprit && is_stream;
      if (may_see_only_the_end) continue;
      EXPECT_NE(end.error.find("SystemError: rank 1 passed memory that cannot be used"), std::string::npos)
          << "rank " << rank << ": " << end.error;
    }
  }
};

TEST_P(Memory, ThatIsReadOnlyCannotReceive) {
  expect_blame(PROT_READ, false);
}
TEST_P(Memory, ThatIsForbiddenCannotReceive) {
  expect_blame(PROT_NONE, false);
}
TEST_P(Memory, ThatIsUnmappedCannotReceive) {
  expect_blame(kUnmapped, false);
}
TEST_P(Memory, ThatIsForbiddenCannotSend) {
  expect_blame(PROT_NONE, true);
}
TEST_P(Memory, ThatIsUnmappedCannotSend) {
  expect_blame(kUnmapped, true);
}

// Over a stream the culprit cuts its own message, and the link that carried it is closed. Each of its two
// ends could take the other one for dead.
TEST_P(Memory, ThatCannotBeSentCostsNoOtherRankItsPlace) {
  const bool is_stream = !transport::find_transport(GetParam())->pulls;
  const int left = is_stream ? 2 : 3;
  for (int round = 0; round < 10; ++round) {
    Processes processes({.size = 3, .transports = GetParam()}, [&](Communicator& c) {
      const Buffer data(make_memory(c.rank() == kCulprit ? PROT_NONE : PROT_READ | PROT_WRITE), kBytes,
                        DType::uint8);
      try {
        c.barrier();  // else a rank may still be in create()
        if (c.rank() == kCulprit) c.send(data, 0);
        if (c.rank() == 0) c.recv(data, kCulprit);
        c.barrier();
        c.barrier();
      } catch (const Error&) {
      }
      Communicator next = c.shrink();
      require(next.size() == left, "a group of " + std::to_string(next.size()));
      next.barrier();
    });
    for (int rank = 0; rank < 3; ++rank) {
      const RankEnd end = processes.collect_one(rank, 20s);
      EXPECT_EQ(end.code, is_stream && rank == kCulprit ? 1 : 0) << "rank " << rank << ": " << end.error;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Multiprocess, Memory, kBetweenProcesses, kTransportNames);

}  // namespace
}  // namespace kolo::test

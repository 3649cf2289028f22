// Fault injection into inproc links.
#include "transport/inproc/faults.hpp"

#include <atomic>

#include "unit/transport/support.hpp"

namespace kolo::testing {
namespace {

constexpr Variant kInproc{"inproc", "inproc", ""};

class InprocFaults : public ::testing::Test {
 protected:
  ~InprocFaults() override { transport::inproc::clear_faults(job_); }
  void connect(int size) {
    group_ = connect_group(kInproc, size, {.job = job_});
    ASSERT_TRUE(group_.ok());
  }
  Watchdog watchdog_{seconds(60)};
  std::string job_ = new_job();
  Group group_;
};

milliseconds elapsed(Clock::time_point since) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - since);
}

TEST_F(InprocFaults, ADelayHoldsEveryByteBack) {
  for (const bool before : {true, false}) {
    if (before) transport::inproc::set_delay(job_, 1, 0, milliseconds(80));
    connect(3);
    if (!before) transport::inproc::set_delay(job_, 0, 1, milliseconds(80));
    const auto data = pattern(100'000, 1);
    const auto start = Clock::now();
    ASSERT_TRUE(send_all(group_.at(0, 1), data).ok());
    ASSERT_TRUE(send_all(group_.at(0, 2), data).ok());
    std::vector<std::byte> in(data.size());
    ASSERT_TRUE(receive_all(group_.at(2, 0), in).ok());
    EXPECT_LT(elapsed(start), milliseconds(70)) << "another link is slow too";
    ASSERT_TRUE(receive_all(group_.at(1, 0), in).ok());
    EXPECT_GE(elapsed(start), milliseconds(80));
    EXPECT_TRUE(in == data);
    transport::inproc::clear_faults(job_);
  }
}

TEST_F(InprocFaults, TheEndOfADelayWakesTheSleeper) {
  transport::inproc::set_delay(job_, 0, 1, seconds(50));
  connect(2);
  const auto data = pattern(1000, 1);
  ASSERT_TRUE(send_all(group_.at(0, 1), data).ok());
  std::thread later([&] {
    std::this_thread::sleep_for(milliseconds(50));
    transport::inproc::set_delay(job_, 0, 1, milliseconds(0));
  });
  std::vector<std::byte> in(data.size());
  const auto start = Clock::now();
  EXPECT_TRUE(receive_all(group_.at(1, 0), in).ok());
  EXPECT_LT(elapsed(start), seconds(5));
  EXPECT_TRUE(in == data);
  later.join();
}

TEST_F(InprocFaults, AStalledRankMovesNothingUntilItGoesOn) {
  connect(3);
  const auto data = pattern(1000, 1);
  ASSERT_TRUE(send_all(group_.at(1, 0), data).ok());  // in the ring when the stall begins
  transport::inproc::set_stalled(job_, 1, true);
  std::byte buffer[10];
  EXPECT_EQ(group_.at(0, 1).read(buffer).value(), 0u);
  const iovec part{buffer, sizeof buffer};
  EXPECT_EQ(group_.at(0, 1).write({&part, 1}).value(), 0u);
  EXPECT_EQ(group_.at(1, 2).write({&part, 1}).value(), 0u);
  EXPECT_EQ(group_.at(0, 2).write({&part, 1}).value(), sizeof buffer) << "an unconcerned link stalls";
  (void)group_.at(0, 1).drain();  // the doorbell that the change of faults rang
  EXPECT_EQ(sleep_on(group_.at(0, 1), true, milliseconds(50)).code(), Code::timeout);

  std::atomic<bool> ended{false};
  std::thread later([&] {
    std::this_thread::sleep_for(milliseconds(100));
    ended = true;
    transport::inproc::set_stalled(job_, 1, false);
  });
  std::vector<std::byte> in(data.size());
  EXPECT_TRUE(receive_all(group_.at(0, 1), in).ok());
  EXPECT_TRUE(ended);
  EXPECT_TRUE(in == data);
  later.join();
}

TEST_F(InprocFaults, ALostRankIsLostToAllAndToItself) {
  connect(3);
  Status seen;
  std::thread event_set([&] { seen = error_of_read(group_.at(0, 2)); });
  std::this_thread::sleep_for(milliseconds(30));
  transport::inproc::lose(job_, 2);
  event_set.join();
  EXPECT_EQ(seen.code(), Code::peer_lost);
  EXPECT_EQ(error_of_write(group_.at(1, 2)).code(), Code::peer_lost);
  EXPECT_EQ(error_of_read(group_.at(2, 0)).code(), Code::peer_lost);
  const auto data = pattern(100, 1);
  EXPECT_TRUE(send_all(group_.at(0, 1), data).ok()) << "the others go on";
}

TEST_F(InprocFaults, RevocationWaitsForAPullThatIsGoingOn) {
  connect(2);
  std::vector<std::byte> memory(1000);
  const auto range = group_.at(0, 1).expose(memory.data(), memory.size());
  ASSERT_TRUE(range);
  ASSERT_NE(group_.at(1, 0).map(*range, memory.size()).value(), nullptr);  // rank 1 reads from here on
  std::atomic<bool> revoked{false};
  std::thread owner([&] {
    group_.at(0, 1).revoke();
    revoked = true;
  });
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(revoked);
  while (!group_.at(1, 0).revoked()) std::this_thread::yield();  // rank 1 ends its read
  owner.join();
  EXPECT_EQ(group_.at(1, 0).map(*range, memory.size()).value(), nullptr) << "it may be freed by now";
}

}  // namespace
}  // namespace kolo::testing

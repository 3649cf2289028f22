// What people are told of a rank that keeps the others waiting.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "support/cluster.hpp"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

TEST(Waiting, RankZeroSaysAfterTenSecondsWhoIsMissingAndWhereItWasLastSeen) {
  ::testing::internal::CaptureStderr();
  // Their first call is expect_ranks' own.
  expect_ranks({.size = 3}, [](Communicator& c) {
    std::vector<float> data(4), all(12);
    c.all_reduce(data);
    c.all_gather(data, all);
    if (c.rank() == 1) std::this_thread::sleep_for(11s);
    c.all_reduce(data);
  });
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("call 4, all_reduce(sum of 4 float32"), std::string::npos) << said;
  EXPECT_NE(said.find("waiting 10 s for rank 1 (last seen in all_gather #3)"), std::string::npos) << said;
}

}  // namespace
}  // namespace kolo::test

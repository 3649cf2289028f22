// Calls with lists of buffers between real processes: private memory is read across address spaces.
#include <gtest/gtest.h>

#include "multiprocess/processes.hpp"
#include "support/listed_cases.hpp"
#include "support/transports.hpp"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

class Lists : public ::testing::TestWithParam<const char*> {};

TEST_P(Lists, OfShortAndLongParts) {
  Processes processes({.size = 3, .transports = GetParam()}, [&](Communicator& c) {
    for (const std::uint64_t count : {5u, 30'000u, 300'003u}) {
      for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
        if (!takes_lists(algorithm.collective)) continue;
        const CallOptions options{.algorithm = algorithm.name};
        if (!algorithms::supports(algorithm, {algorithm.collective, 0, c.size(), 0, {}}).ok()) continue;
        run_listed(algorithm.collective, {c, options, DType::int32, ReduceOp::sum}, count,
                   {.on_all = count % 2 == 0});
      }
    }
  });
  for (const RankEnd& end : processes.collect(60s)) EXPECT_EQ(end.code, 0) << end.error;
}

INSTANTIATE_TEST_SUITE_P(, Lists, kBetweenProcesses, kTransportNames);

}  // namespace
}  // namespace kolo::test

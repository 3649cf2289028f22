// Very many calls in flight: each takes as long as one of few, and no live rank is taken for lost.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "multiprocess/processes.hpp"
#include "support/require.hpp"
#include "support/transports.hpp"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

constexpr int kFewCalls = 10'000;
constexpr int kManyCalls = 100'000;

/// Starts calls that change each 1 of `data` to 2.
using Start = std::function<void(Communicator& c, std::vector<float>& data, std::vector<Work>& calls)>;

void send_all(Communicator& c, std::size_t count, std::vector<Work>& calls, bool has_tags) {
  static const float two = 2;
  for (int i = 0; i < static_cast<int>(count); ++i)
    calls.push_back(c.send_async(ConstBuffer(&two, 1, DType::float32), 1 - c.rank(), has_tags ? i : 0));
}

class Outstanding : public ::testing::TestWithParam<const char*> {
 protected:
  static void expect_linear(const Start& start) {
    Processes processes(
        {.size = 2, .transports = GetParam(), .timeout = 60s, .settings = {{"KOLO_HEARTBEAT", "2"}}},
        [&](Communicator& c) {
          const auto time_of = [&](int count) {
            std::vector<float> data(static_cast<std::size_t>(count), 1.0f);
            std::vector<Work> calls;
            c.barrier();
            // All of the other rank's messages come before their receives are posted.
            if (c.rank() == 1) std::this_thread::sleep_for(count == kManyCalls ? 3s : 300ms);
            const double begin = processor_seconds();
            start(c, data, calls);
            for (const Work& call : calls) call.wait();
            for (const float value : data) require(value == 2, "a wrong result");
            return processor_seconds() - begin;
          };
          const double few = time_of(kFewCalls);
          const double many = time_of(kManyCalls);
          require(many < 4 * few * kManyCalls / kFewCalls, std::to_string(few) + " s for 10,000 calls, but " +
                                                               std::to_string(many) + " s for 100,000");
        });
    for (const RankEnd& end : processes.collect(100s)) EXPECT_EQ(end.code, 0) << end.error;
  }
};

TEST_P(Outstanding, Collectives) {
  expect_linear([](Communicator& c, std::vector<float>& data, std::vector<Work>& calls) {
    for (float& value : data) calls.push_back(c.all_reduce_async(Buffer(&value, 1, DType::float32)));
  });
}

TEST_P(Outstanding, ReceivesBeforeSends) {
  expect_linear([](Communicator& c, std::vector<float>& data, std::vector<Work>& calls) {
    for (float& value : data) calls.push_back(c.recv_async(Buffer(&value, 1, DType::float32), 1 - c.rank()));
    send_all(c, data.size(), calls, false);
  });
}

TEST_P(Outstanding, ReceivesInTheOppositeOrderOfTheirMessages) {
  expect_linear([](Communicator& c, std::vector<float>& data, std::vector<Work>& calls) {
    send_all(c, data.size(), calls, true);
    for (int i = static_cast<int>(data.size()); i-- > 0;)
      calls.push_back(
          c.recv_async(Buffer(&data[static_cast<std::size_t>(i)], 1, DType::float32), 1 - c.rank(), i));
  });
}

TEST_P(Outstanding, ReceivesFromAnyRank) {
  expect_linear([](Communicator& c, std::vector<float>& data, std::vector<Work>& calls) {
    for (float& value : data) calls.push_back(c.recv_any_async(Buffer(&value, 1, DType::float32)));
    send_all(c, data.size(), calls, false);
  });
}

INSTANTIATE_TEST_SUITE_P(Multiprocess, Outstanding, kBetweenProcesses, kTransportNames);

}  // namespace
}  // namespace kolo::test

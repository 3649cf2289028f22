// What calls accept: counts of any integers, single numbers, reductions of one element type.
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "support/cluster.hpp"
#include "support/require.hpp"
#include "support/transports.hpp"

namespace kolo::test {
namespace {

class ArgumentsOver : public ::testing::TestWithParam<const char*> {};

TEST_P(ArgumentsOver, CountsAreAnyIntegers) {
  expect_ranks({.size = 3, .transport = GetParam()}, [](Communicator& c) {
    const std::vector<int> counts = {2, 0, 3};
    const std::vector<int> own(static_cast<std::size_t>(counts[static_cast<std::size_t>(c.rank())]),
                               c.rank());
    std::vector<int> all(5, -1);
    c.all_gather(own, all, counts);
    require(all == std::vector<int>({0, 0, 2, 2, 2}), "wrong parts by vector<int>");
    std::vector<int> again(5, -1);
    c.all_gather_async(own, again, std::array<std::int16_t, 3>{2, 0, 3}).wait();
    require(again == all, "wrong parts by array<int16_t>");
    std::vector<int> equal(3);
    const int rank = c.rank();
    c.all_gather(std::span(&rank, 1), equal, {}, {.algorithm = "ring"});
    require(equal == std::vector<int>({0, 1, 2}), "no counts are not equal parts");
  });
}

TEST_P(ArgumentsOver, ANegativeCountIsRefused) {
  expect_ranks({.size = 2, .transport = GetParam()}, [](Communicator& c) {
    std::vector<float> in(2), out(2);
    const std::vector<int> wrong = {3, -1};
    require_refused(c, {"all_gather: ", "-1"}, [&] { c.all_gather(in, out, wrong); });
    require_refused(c, {"reduce_scatter: ", "-1"}, [&] { c.reduce_scatter(in, out, ReduceOp::sum, wrong); });
    require_refused(c, {"scatter: ", "-1"}, [&] { c.scatter(in, out, 0, wrong); });
    require_refused(c, {"gather: ", "-1"}, [&] { c.gather(in, out, 0, wrong); });
    require_refused(c, {"all_to_all: ", "-1"}, [&] {
      (void)c.all_to_all_async(in, out, std::vector<int>{1, 1}, wrong);
    });
  });
}

TEST_P(ArgumentsOver, OneNumberIsReducedAndReturned) {
  expect_ranks({.size = 3, .transport = GetParam()}, [](Communicator& c) {
    const double loss = c.rank() + 0.5;
    require(c.all_reduce(loss, ReduceOp::average) == 1.5, "wrong average of doubles");
    require(loss == c.rank() + 0.5, "the argument changed");
    require(c.all_reduce(c.rank() + 1) == 6, "wrong sum of ints");
    require(c.all_reduce(std::uint8_t(c.rank()), ReduceOp::max, {.algorithm = "ring"}) == 2, "wrong maximum");
  });
}

TEST_P(ArgumentsOver, AReductionOfOneTypeTakesNoOther) {
  expect_ranks({.size = 3, .transport = GetParam()}, [](Communicator& c) {
    const auto farther = Reduction::custom<float>(
        "farther", [](float a, float b) { return std::abs(a) < std::abs(b) ? b : a; }, true);
    std::vector<float> data = {1.0f - static_cast<float>(2 * c.rank()), static_cast<float>(c.rank())};
    c.all_reduce(data, farther);
    require(data == std::vector<float>({-3, 2}), "wrong result of a typed reduction");
    std::vector<double> doubles(2);
    require_refused(c, {"all_reduce: ", "farther", "float32", "float64"},
                    [&] { c.all_reduce(doubles, farther); });
    require_refused(c, {"reduce: ", "farther"}, [&] { c.reduce(doubles, doubles, 0, farther); });
    const auto second = Reduction::custom<int>("second", [](int, int b) { return b; });
    require(c.all_reduce(c.rank() + 7, second) == 9, "a typed reduction lost the order of ranks");
  });
}

/// There is no driver, or the memory is the host's.
TEST_P(ArgumentsOver, MemoryThatIsNotOnTheDeviceIsAnErrorOnAllRanks) {
  using Call = std::function<void(Communicator&, const Buffer& one, const Buffer& other)>;
  const std::map<std::string, Call> calls = {
      {"all_reduce", [](Communicator& c, const Buffer& one, const Buffer&) { c.all_reduce(one); }},
      {"broadcast", [](Communicator& c, const Buffer& one, const Buffer&) { c.broadcast(one, 0); }},
      {"scan", [](Communicator& c, const Buffer& one, const Buffer& other) { c.scan(one, other); }},
      {"reduce_scatter",
       [](Communicator& c, const Buffer& one, const Buffer& other) {
         c.reduce_scatter(std::vector<ConstBuffer>{one, one}, other);
       }},
  };
  for (const auto& [name, call] : calls) {
    const Outcome outcome =
        run_ranks({.size = 2, .transport = GetParam()}, [&, &call = call](Communicator& c) {
          std::vector<float> memory(4, 1.0f);
          if (c.rank() == 0) return c.barrier();
          const Device device{DeviceKind::cuda, 0};
          call(c, {memory.data(), 2, DType::float32, device}, {memory.data() + 2, 2, DType::float32, device});
        });
    for (const std::string& error : outcome.errors) {
      EXPECT_NE(error.find("rank 1"), std::string::npos) << error;
      EXPECT_NE(error.find(name + ": "), std::string::npos) << error;
    }
  }
}

TEST_P(ArgumentsOver, MemoryOfADeviceIsRefusedWhereNoneIsServed) {
  expect_ranks({.size = 2, .transport = GetParam()}, [](Communicator& c) {
    std::vector<float> memory(2, 1.0f);
    const Buffer away(memory.data(), 2, DType::float32, {DeviceKind::cuda, 1});
    // There is no driver, or the memory is the host's.
    const auto require_error = [&](const std::string& text, const std::function<void()>& start) {
      std::string error = "none";
      try {
        start();
      } catch (const Error& caught) {
        error = caught.what();
      }
      require(error.find(text) != std::string::npos, "an error that is: " + error);
    };
    require_error("send: `data`", [&] { c.send(away, 1 - c.rank()); });
    require_error("recv: `data`", [&] { c.recv(away, 1 - c.rank()); });
    require_error("recv_any: `data`", [&] { c.recv_any(away); });
    require_refused(c, {"all_gather: buffers are on the host and on cuda:1"},
                    [&] { c.all_gather(memory, away); });
    const Buffer nowhere(memory.data(), 2, DType::float32, {static_cast<DeviceKind>(9), 0});
    require_refused(c, {"all_reduce: `in`", "no known kind of device"}, [&] { c.all_reduce(nowhere); });
    require_refused(c, {"all_reduce: `stream`"},
                    [&] { c.all_reduce(memory, ReduceOp::sum, {.stream = memory.data()}); });
    const Work work = c.all_reduce_async(memory);
    work.order(nullptr);
    require(work.done() && memory[0] == 2.0f, "the result is not there after order()");
  });
}

INSTANTIATE_TEST_SUITE_P(Conformance, ArgumentsOver, kTransports, kTransportNames);

}  // namespace
}  // namespace kolo::test

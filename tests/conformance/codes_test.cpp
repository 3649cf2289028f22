// Errors of a communicator's calls end in the codes of their causes, on all ranks.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/cluster.hpp"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

void expect_codes(const std::function<void(Communicator&)>& body, const std::string& code) {
  const Outcome outcome = run_ranks({.size = 2, .timeout = 1s}, body);
  for (const std::string& error : outcome.errors) EXPECT_TRUE(error.ends_with(" [" + code + "]")) << error;
}

TEST(Codes, OfCallsThatDoNotFitTogether) {
  expect_codes(
      [](Communicator& c) {
        std::vector<int> data(c.rank() == 0 ? 3 : 4);
        c.all_reduce(data);
        c.barrier();
      },
      "K205");
}

TEST(Codes, OfACallThatARankDoesNotMake) {
  expect_codes(
      [](Communicator& c) {
        if (c.rank() == 0) c.barrier();
        std::vector<int> data(1);
        if (c.rank() == 1) c.recv(data, 0, 7);
      },
      "K203");
}

TEST(Codes, OfAnAbortHaveNothingOfItsReason) {
  expect_codes(
      [](Communicator& c) {
        if (c.rank() == 0) c.abort("no store answered at all");
        c.barrier();
      },
      "K206");
}

TEST(Codes, OfAnAlgorithmThatThereIsNot) {
  expect_codes(
      [](Communicator& c) {
        std::vector<int> data(4);
        c.all_reduce(data, ReduceOp::sum, {.algorithm = "pigeon"});
      },
      "K303");
}

TEST(Codes, OfAStoreThatDoesNotAnswer) {
  try {
    connect_tcp_store("127.0.0.1", 1, "a key of some length", 50ms);
    FAIL();
  } catch (const RendezvousError& error) {
    EXPECT_TRUE(std::string(error.what()).ends_with(" [K104]")) << error.what();
  }
}

}  // namespace
}  // namespace kolo::test

// probe(), which tells of a message that has come.
#include <optional>
#include <thread>

#include "support/cluster.hpp"
#include "support/require.hpp"
#include "support/transports.hpp"

namespace kolo::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class ProbeOver : public ::testing::TestWithParam<const char*> {};

/// As a receiver that does not know how much comes.
std::vector<double> take(Communicator& c, const ProbedMessage& message, int tag) {
  require(message.dtype == DType::float64, "another element type");
  std::vector<double> got(message.count);
  c.recv(got, message.source, tag);
  return got;
}

TEST_P(ProbeOver, TellsSourceTypeAndLengthAndLeavesTheMessage) {
  expect_ranks({.size = 3, .transport = GetParam()}, [](Communicator& c) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{5}, std::size_t{300'000}}) {
      c.barrier();
      const std::vector<double> own(count + static_cast<std::size_t>(c.rank()), c.rank());
      if (c.rank() > 0) {
        const Work first = c.send_async(own, 0, 3);
        c.send(own, 0, 4);
        first.wait();
        continue;
      }
      for (const int peer : {2, 1}) {
        const ProbedMessage first = c.probe(peer, 4);
        require(first.source == peer && first.count == count + static_cast<std::size_t>(peer), "of another");
        require(c.probe(peer, 4).count == first.count, "the first probe has taken it");
      }
      std::vector<int> sources;
      for (int i = 0; i < 2; ++i) {
        const ProbedMessage message = c.probe(kAnyRank, 3);
        const std::vector<double> got = take(c, message, 3);
        const auto expected = static_cast<std::size_t>(message.source);
        require(got == std::vector<double>(count + expected, message.source), "wrong data");
        sources.push_back(message.source);
      }
      require(sources[0] + sources[1] == 3, "a message came twice");
      for (const int peer : {1, 2}) {
        std::optional<ProbedMessage> message;
        while (!message) message = c.probe(peer, 4, seconds(0));
        require(take(c, *message, 4).size() == message->count, "wrong data");
      }
      require(!c.probe(kAnyRank, 3, seconds(0)) && !c.probe(1, 4, milliseconds(5)), "a message is left");
    }
    c.barrier();  // a probe of ranks that have left fails
  });
}

TEST_P(ProbeOver, GivesUpWithoutHarm) {
  expect_ranks({.size = 2, .transport = GetParam()}, [](Communicator& c) {
    const int other = 1 - c.rank();
    for (int round = 0; round < 50; ++round) {
      require(!c.probe(other, 1, milliseconds(round % 3)), "a message with another tag was found");
      c.barrier();
      const std::vector<double> one(1, round);
      const Work send = c.send_async(one, other, 1);
      require(take(c, c.probe(kAnyRank, 1), 1)[0] == round, "another message");
      send.wait();
      // To itself, and one that a receive already waits for.
      const Work own = c.send_async(one, c.rank(), 2);
      require(c.probe(c.rank(), 2).source == c.rank() && take(c, c.probe(kAnyRank, 2), 2)[0] == round, "own");
      own.wait();
      c.barrier();
    }
    c.barrier();
  });
}

void expect_said(const std::string& error, const std::vector<std::string>& said) {
  for (const std::string& part : said) EXPECT_NE(error.find(part), std::string::npos) << error;
}

TEST_P(ProbeOver, FailsAsARecvDoes) {
  for (const int peer : {1, kAnyRank}) {
    const Outcome late = run_ranks({.size = 2, .transport = GetParam()}, [&](Communicator& c) {
      std::vector<int> word(1);
      if (c.rank() == 1) return c.recv(word, 0, 8);  // until it is told
      c.set_timeout(milliseconds(200));
      static_cast<void>(c.probe(peer, 7));
    });
    expect_said(late.errors[0], {"timed out after 0.2 s", "probe(a message) from", "with tag 7 failed"});
    const Outcome gone = run_ranks({.size = 2, .transport = GetParam()}, [&](Communicator& c) {
      if (c.rank() == 0) static_cast<void>(c.probe(peer, 7));
    });
    expect_said(gone.errors[0], {"rank 1 has left", "with tag 7 failed"});
  }
  expect_ranks({.size = 2, .transport = GetParam()}, [](Communicator& c) {
    const auto refused = [&](const std::function<void()>& call) {
      try {
        call();
      } catch (const InvalidArgumentError& error) {
        return std::string(error.what()).starts_with("rank " + std::to_string(c.rank()) + ": probe: ");
      }
      return false;
    };
    require(refused([&] { static_cast<void>(c.probe(2)); }), "a rank that is none");
    require(refused([&] { static_cast<void>(c.probe(-2, 0, seconds(1))); }), "a rank that is none");
    require(refused([&] { static_cast<void>(c.probe(1, -1)); }), "a negative tag");
  });
}

INSTANTIATE_TEST_SUITE_P(Conformance, ProbeOver, kTransports, kTransportNames);

}  // namespace
}  // namespace kolo::test

// A rank that leaves: what ends there, and what of its peers.
#include <future>
#include <vector>

#include "support/cluster.hpp"
#include "support/require.hpp"
#include "support/transports.hpp"

namespace kolo::test {
namespace {

using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

class LeavingOver : public ::testing::TestWithParam<const char*> {};

/// The text of the error with which the Work ends, within 1 s and some for a busy machine.
std::string end_of(const Work& work) {
  const auto begin = Clock::now();
  try {
    require(work.wait(seconds(20)), "a call that needs a rank that has left goes on");
  } catch (const PeerLostError& error) {
    require(Clock::now() - begin < seconds(3), std::string("too late: ") + error.what());
    return error.what();
  }
  throw std::runtime_error("a call that needs a rank that has left has succeeded");
}

void require_has_left(const Work& work) {
  const std::string error = end_of(work);
  require(error.find("rank 1 has left") != std::string::npos ||
              error.find("lost rank 1: it cannot be reached") != std::string::npos,
          error);
}

void exchange(Communicator& c) {
  const int peer = 2 - c.rank();
  std::vector<int> mine(1000, c.rank()), theirs(1000);
  c.sendrecv(mine, peer, theirs, peer, 3);
  require(theirs.back() == peer, "a message between the other ranks is wrong");
}

TEST_P(LeavingOver, MessagesWithoutAPeerEndAlone) {
  std::promise<void> has_left;
  const auto left = has_left.get_future().share();
  expect_ranks({.size = 3, .transport = GetParam()}, [&](Communicator& c) {
    std::vector<int> small(1, c.rank()), never(1), large(6'000'000, 1);  // more than the credit of a link
    c.barrier();
    if (c.rank() == 1) {
      const Work received = c.recv_async(never, 0, 5), sent = c.send_async(large, 0, 6);
      c.send(small, 0, 1);
      c = Communicator();
      has_left.set_value();
      for (const Work& work : {received, sent}) {
        const std::string error = end_of(work);
        require(error.find("rank 1 destroyed its communicator") != std::string::npos, error);
      }
      return;
    }
    const Work early = c.rank() == 0 ? c.recv_async(never, 1, 7) : Work();
    exchange(c);
    left.wait();
    exchange(c);
    if (c.rank() == 0) {
      require_has_left(early);
      c.recv(small, 1, 1);  // it came before rank 1 left
      require(small[0] == 1, "a message that was kept is wrong");
      require_has_left(c.recv_async(large, 1, 6));
      require_has_left(c.recv_async(never, 1, 7));
    }
    exchange(c);
  });
}

TEST_P(LeavingOver, ACollectiveThatNeedsItEndsEverywhere) {
  const Outcome outcome = run_ranks({.size = 3, .transport = GetParam()}, [&](Communicator& c) {
    std::vector<int> data(1000), never(1);
    c.all_reduce(data);
    if (c.rank() == 1) return;
    const Work message = c.recv_async(never, 2 - c.rank(), 7);
    const Work sum = c.all_reduce_async(data);
    end_of(sum);
    end_of(message);
    exchange(c);
  });
  for (const int rank : {0, 2}) {
    const std::string& error = outcome.errors[static_cast<std::size_t>(rank)];
    EXPECT_NE(error.find("rank 1"), std::string::npos) << error;
  }
}

TEST_P(LeavingOver, AReceiveFromAnyRankEndsWhenTheLastHasLeft) {
  expect_ranks({.size = 3, .transport = GetParam()}, [&](Communicator& c) {
    std::vector<int> never(1), word(1, c.rank());
    c.barrier();
    if (c.rank() > 0) return;
    const Work any = c.recv_any_async(never, 7);
    end_of(any);
    const Work own = c.recv_async(never, 0, 8);
    c.send(word, 0, 8);
    own.wait();  // nothing else has failed
  });
}

TEST_P(LeavingOver, AWorkNamesTheRanksForWhichItWaits) {
  expect_ranks({.size = 3, .transport = GetParam()}, [&](Communicator& c) {
    std::vector<int> data(1);
    if (c.rank() == 0) {
      const Work receive = c.recv_async(data, 2, 4);
      require(receive.waiting_for() == std::vector<int>{2}, "a receive waits for its sender");
      const Work any = c.recv_any_async(data, 5);
      require(any.waiting_for() == std::vector<int>{1, 2}, "a receive from any rank waits for all others");
      c.barrier();
      receive.wait();
      any.wait();
      require(receive.waiting_for().empty(), "a Work that is done waits for no rank");
    } else {
      c.barrier();
      c.send(data, 0, c.rank() == 2 ? 4 : 5);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Conformance, LeavingOver, kTransports, kTransportNames);

}  // namespace
}  // namespace kolo::test

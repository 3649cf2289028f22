// Which rank is lost, silent, absent or late: peers and their answers are played, and so is the time.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "engine/failure_detector.hpp"
#include "schedule/schedule.hpp"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

constexpr auto kTimeout = 30s;
constexpr auto kHeartbeat = 5s;
constexpr auto kBeat = kHeartbeat / 5;
constexpr auto kCheck = 10ms;  // time between two checks, as in the engine

class PlayedPeers final : public engine::MonitoredPeers {
 public:
  explicit PlayedPeers(int size) : signs(static_cast<std::size_t>(size)), states(signs.size()) {}

  engine::SignsOfLife signs_of(int peer) const override { return signs[static_cast<std::size_t>(peer)]; }
  engine::PeerState state_of(int peer) const override { return states[static_cast<std::size_t>(peer)]; }
  void ping(int peer, const engine::Ping& ping) override {
    ++pings[peer];
    last_ping = ping;
  }
  std::string name_of(int peer) const override { return "rank " + std::to_string(peer); }
  std::vector<int> ranks_beside(int peer) const override { return peer == 1 ? beside_1 : std::vector<int>(); }
  std::string connection_to(int) const override { return "played"; }
  std::optional<std::uint32_t> unmatched_tag(int peer, std::uint32_t) const override {
    const auto tag = tags.find(peer);
    return tag == tags.end() ? std::nullopt : std::optional(tag->second);
  }

  std::vector<engine::SignsOfLife> signs;
  std::vector<engine::PeerState> states;
  std::map<int, std::uint32_t> tags;
  std::map<int, int> pings;
  std::vector<int> beside_1;
  engine::Ping last_ping;
};

/// Rank 0 of three, in call 7, waits for rank 1. Rank 2 is done with its part.
class FailureDetectorTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kCall = 7;

  FailureDetectorTest() { peers.states[1].is_awaited = true; }

  /// Plays so much time, with a check as often as the engine makes one, until the call fails. `meanwhile` is
  /// called before each check.
  template <typename Meanwhile>
  std::optional<engine::Failure> play(std::chrono::nanoseconds time, Meanwhile meanwhile) {
    for (const auto end = now + time; now < end;) {
      now += kCheck;
      meanwhile();
      const engine::WaitingCall waiting = call();
      if (now - last_progress < detector.patience(kTimeout)) continue;
      if (auto failure = detector.check(waiting, now)) return failure;
      if (auto missing = detector.missing_ranks(waiting, now); !missing.empty()) warnings.push_back(missing);
    }
    return std::nullopt;
  }
  std::optional<engine::Failure> play(std::chrono::nanoseconds time) {
    return play(time, [] {});
  }
  engine::WaitingCall call() {
    return {this, kind, kTimeout, in_shared_memory, {1, 0, kCall, {}}, ranks, awaited, last_progress};
  }
  /// The peer lives and says that its last call was this one, and that it waits in another call for so long.
  void answer(int peer, std::uint64_t last_call, std::chrono::milliseconds waits = 0ms,
              const std::vector<int>& waits_for = {}) {
    peers.signs[static_cast<std::size_t>(peer)].read += 100;
    engine::Pong pong;
    pong.context = 1;
    pong.sequence = kCall;
    pong.last_sequence = last_call;
    pong.last_collective = static_cast<std::uint32_t>(schedule::Collective::all_reduce);
    pong.waits_ms = static_cast<std::uint32_t>(waits.count());
    pong.left_ms =
        static_cast<std::uint32_t>(std::max(0ms, std::chrono::milliseconds(kTimeout) - waits).count());
    std::ranges::copy(waits_for, pong.waits_for.begin());
    detector.on_pong(peer, pong, now);
  }
  auto both_answer(std::uint64_t last_call_of_1) {
    return [this, last_call_of_1] {
      answer(1, last_call_of_1);
      answer(2, kCall);
    };
  }

  PlayedPeers peers{3};
  engine::FailureDetector detector{0, 3, kHeartbeat, peers};
  Clock::time_point now{1h};
  Clock::time_point last_progress{now};
  engine::WaitingCall::Kind kind = engine::WaitingCall::Kind::collective;
  bool in_shared_memory = false;
  const std::vector<int> ranks{0, 1, 2};
  std::vector<int> awaited{1};
  std::vector<std::string> warnings;
};

TEST_F(FailureDetectorTest, ASilentPeerIsLostAfterAHeartbeat) {
  const auto begin = now;
  const auto failure = play(kTimeout);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, Code::peer_lost);
  EXPECT_EQ(failure->blamed, 1);
  EXPECT_EQ(failure->reason,
            "lost rank 1: timed out after 5 s without a word from it: it is stopped, or its machine or "
            "network is down "
            "(played)");
  EXPECT_LT(now - begin, kHeartbeat + 2 * kCheck);
  EXPECT_EQ(peers.pings[1], 5);
  EXPECT_EQ(peers.pings[2], 0);
  EXPECT_EQ(peers.last_ping.sequence, kCall);
}

TEST_F(FailureDetectorTest, TheRanksOfAVanishedHostAreSilentTogether) {
  peers.beside_1 = {2};
  ASSERT_TRUE(play(kTimeout));
  EXPECT_EQ(peers.pings[2], 4);
  EXPECT_EQ(detector.silent_with(1, now), (std::vector{1, 2}));
}

TEST_F(FailureDetectorTest, ARankThatAnswersIsNotSilentWithItsNeighbour) {
  peers.beside_1 = {2};
  ASSERT_TRUE(play(kTimeout, [&] { peers.signs[2].read = static_cast<std::uint64_t>(peers.pings[2]); }));
  EXPECT_EQ(detector.silent_with(1, now), std::vector{1});
}

TEST_F(FailureDetectorTest, APeerThatSendsAnythingIsNotSilent) {
  EXPECT_FALSE(play(kTimeout - 2s, [&] {
    peers.signs[1].read = static_cast<std::uint64_t>(now.time_since_epoch() / 4s % 2);
  }));
}

TEST_F(FailureDetectorTest, APeerThatReadsIsNotSilent) {
  EXPECT_FALSE(play(kTimeout - 2s, [&] { peers.signs[1].delivered += 50; }));
}

TEST_F(FailureDetectorTest, PingsThatArriveAreNoSignOfLife) {
  EXPECT_TRUE(play(kHeartbeat + 1s,
                   [&] { peers.signs[1].delivered = 500u * static_cast<unsigned>(peers.pings[1]); }));
}

TEST_F(FailureDetectorTest, NothingIsSilentWithoutAHeartbeat) {
  engine::FailureDetector patient{0, 3, 0s, peers};
  for (; now < last_progress + kTimeout - 2s; now += kCheck) EXPECT_FALSE(patient.check(call(), now));
  EXPECT_FALSE(patient.is_silent(1, {}, now));
  EXPECT_EQ(peers.pings[1], 0);
}

TEST_F(FailureDetectorTest, AFullLinkExcusesSilenceForFourHeartbeats) {
  const auto begin = now;
  const auto failure = play(kTimeout - 2s, [&] { peers.signs[1].elsewhere += 1 << 20; });
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->blamed, 1);
  EXPECT_GE(now - begin, 4 * kHeartbeat - kBeat);
  EXPECT_LE(now - begin, 4 * kHeartbeat + kBeat);
}

TEST_F(FailureDetectorTest, TimeInWhichThisRankWasStoppedIsNoSilence) {
  EXPECT_FALSE(play(kHeartbeat - kBeat));
  now += 15s;
  EXPECT_FALSE(play(kHeartbeat - 2 * kBeat));
  EXPECT_TRUE(play(2 * kBeat));
}

TEST_F(FailureDetectorTest, DataThatHasComeNeedsNoPeer) {
  peers.states[1].is_awaited = false;
  EXPECT_FALSE(play(kTimeout - 2s));
  in_shared_memory = true;  // no request is posted
  last_progress = now;
  const auto failure = play(kHeartbeat + 1s);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, Code::peer_lost);
}

TEST_F(FailureDetectorTest, APeerThatIsGoneIsMissedOnlyWhereItIsNeeded) {
  EXPECT_FALSE(detector.find_gone({}));
  peers.states[2].has_left = true;
  EXPECT_FALSE(detector.find_gone({}));
  EXPECT_EQ(detector.find_gone({2})->blamed, 2);  // by a call in shared memory
  peers.states[1].has_ended = true;
  const auto failure = detector.find_gone({});
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->blamed, 1);
  EXPECT_EQ(failure->reason,
            "rank 1 has left (Connection closed by peer): it destroyed its communicator while others still "
            "need it");
}

TEST_F(FailureDetectorTest, APeerThatRefusesIsLostIfItIsNeeded) {
  peers.states[1].refused_for = peers.states[2].refused_for = 199ms;
  EXPECT_FALSE(detector.find_gone({}));
  peers.states[1].refused_for = peers.states[2].refused_for = 200ms;
  EXPECT_TRUE(detector.is_unreachable(2));
  const auto failure = detector.find_gone({});
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->blamed, 1);
  EXPECT_EQ(failure->reason, "lost rank 1: it cannot be reached (Connection closed by peer): played");
}

TEST_F(FailureDetectorTest, ARankThatHasNotMadeTheCallIsBlamedAtTheDeadline) {
  const auto failure = play(2 * kTimeout, both_answer(5));
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, Code::timeout);
  EXPECT_EQ(failure->blamed, 1);
  EXPECT_EQ(failure->reason,
            "timed out after 30 s without progress: rank 1 is alive but has not made this call; its last was "
            "call 5");
  EXPECT_GE(now - last_progress, kTimeout);
  EXPECT_LT(now - last_progress, kTimeout + 1s);
}

TEST_F(FailureDetectorTest, ARankThatDoesNotAnswerIsBlamedBeforeOneThatIsAbsent) {
  const auto failure = play(2 * kTimeout, [&] { answer(1, 5); });
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->blamed, 2);
  EXPECT_EQ(failure->reason,
            "timed out after 30 s without progress: rank 2 does not answer: it is stopped, or its machine or "
            "network is down");
}

TEST_F(FailureDetectorTest, AnAnswerFromBeforeTheQuestionDoesNotCount) {
  const auto failure = play(2 * kTimeout, [&] {
    answer(1, kCall);
    if (now - last_progress < kTimeout - 2s) answer(2, kCall);
  });
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->blamed, 2);
}

TEST_F(FailureDetectorTest, ARankThatHasEndedNeedNotAnswer) {
  peers.states[2].has_left = true;
  const auto failure = play(2 * kTimeout, [&] { answer(1, kCall); });
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->blamed, 1);
  EXPECT_EQ(failure->reason,
            "timed out after 30 s without progress: all ranks answer and take part, waiting for rank 1");
}

TEST_F(FailureDetectorTest, ARankThatWaitsItselfIsBlamedAfterItsOwnDeadline) {
  const auto failure = play(2 * kTimeout, [&] {
    // It began to wait 10 s after this rank.
    const auto waits = std::max<std::chrono::nanoseconds>(0s, now - last_progress - 10s);
    answer(1, 5, std::chrono::duration_cast<std::chrono::milliseconds>(waits));
    answer(2, kCall);
  });
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->blamed, 1);
  EXPECT_EQ(failure->reason,
            "timed out after 30 s without progress: rank 1, waiting in another call, has not made this one; "
            "its last was call 5");
  EXPECT_GE(now - last_progress, kTimeout + 10s);
}

TEST_F(FailureDetectorTest, TheLastOfAChainIsBlamed) {
  const auto chain = [&](const std::vector<int>& of_1, const std::vector<int>& of_2) {
    detector.forget(this);
    last_progress = now;
    return play(2 * kTimeout,
                [&, of_1, of_2] {
                  const auto waits =
                      std::chrono::duration_cast<std::chrono::milliseconds>(now - last_progress);
                  answer(1, 5, waits, of_1);
                  answer(2, kCall, of_2.empty() ? 0ms : waits, of_2);
                })
        .value();
  };
  EXPECT_EQ(chain({0, 2}, {}).blamed, 2);
  EXPECT_EQ(chain({0, 2}, {}).reason,
            "timed out after 30 s without progress: rank 1 has not made this call: it waits for rank 2");
  EXPECT_EQ(chain({2}, {1}).blamed, 1) << "both wait, for each other";
  kind = engine::WaitingCall::Kind::receive;
  EXPECT_EQ(chain({0, 2}, {}).blamed, 2);
  EXPECT_EQ(chain({2}, {}).reason,
            "timed out after 30 s without progress: rank 1 has not met this message: it waits for rank 2");
  EXPECT_EQ(chain({}, {}).blamed, 1);
  EXPECT_EQ(chain({0}, {}).blamed, 1) << "it waits for this rank";
  EXPECT_EQ(chain({2}, {1}).blamed, 1);
  EXPECT_EQ(chain({-7, 1000}, {}).blamed, 1) << "a peer that says nonsense";
}

TEST_F(FailureDetectorTest, DataThatMovesSlowlyIsProgress) {
  const auto begin = last_progress;
  EXPECT_FALSE(play(5 * kTimeout, [&] {
    both_answer(kCall)();
    peers.states[1].payload_moved += 1;
  }));
  EXPECT_GT(last_progress, begin + 3 * kTimeout);
}

TEST_F(FailureDetectorTest, ProgressBeginsTheTimeAnew) {
  EXPECT_FALSE(play(kTimeout - 10ms, both_answer(5)));
  last_progress = now;
  EXPECT_FALSE(play(kTimeout - 10ms, both_answer(5)));
  EXPECT_TRUE(play(1s, both_answer(5)));
}

TEST_F(FailureDetectorTest, AnOperationThatHasEndedIsForgotten) {
  EXPECT_FALSE(play(kTimeout - 20ms, both_answer(5)));
  detector.forget(this);  // and the next one begins in its memory
  EXPECT_FALSE(play(500ms, both_answer(5)));
  EXPECT_TRUE(play(1s, both_answer(5)));
}

TEST_F(FailureDetectorTest, PeersOfACallInSharedMemoryAreAskedSoon) {
  in_shared_memory = true;
  play(1s);
  EXPECT_EQ(peers.pings[2], 4);
}

TEST_F(FailureDetectorTest, AReceiveNamesTheMessageThatHasComeInstead) {
  kind = engine::WaitingCall::Kind::receive;
  peers.tags[1] = 5;
  const auto failure = play(2 * kTimeout, both_answer(0));
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->reason,
            "timed out after 30 s without progress: rank 1 answers but has not met this message; it has sent "
            "one with tag 5, "
            "which no recv has met");
}

TEST_F(FailureDetectorTest, AReceiveFromAnyRankBlamesNone) {
  kind = engine::WaitingCall::Kind::receive_from_any;
  awaited = {1, 2};
  peers.tags[2] = 5;
  const auto failure = play(2 * kTimeout, both_answer(0));
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->blamed, -1);
  EXPECT_EQ(failure->reason,
            "timed out after 30 s without progress: no rank has sent such a message; rank 2 has sent one "
            "with tag 5, which no "
            "recv has met");
}

TEST_F(FailureDetectorTest, WarningsNameTheMissingRanks) {
  EXPECT_FALSE(play(25s, [&] { answer(1, 5, 8s); }));
  EXPECT_EQ(warnings,
            (std::vector<std::string>{"rank 1 (last seen in all_reduce #5, waits itself), rank 2 (no answer)",
                                      "rank 1 (last seen in all_reduce #5), rank 2 (no answer)"}));
}

TEST_F(FailureDetectorTest, WarningsNameTheAwaitedRankIfAllTakePart) {
  EXPECT_FALSE(play(15s, both_answer(kCall)));
  EXPECT_EQ(warnings, std::vector<std::string>{"rank 1 (it takes part)"});
}

TEST_F(FailureDetectorTest, OnlyTheFirstRankWarns) {
  engine::FailureDetector other{2, 3, kHeartbeat, peers};
  for (; now < last_progress + kTimeout; now += kCheck) EXPECT_EQ(other.missing_ranks(call(), now), "");
}

}  // namespace
}  // namespace kolo::test

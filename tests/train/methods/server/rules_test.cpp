// The rules and the headers, without I/O.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "fuzz/server_request.hpp"
#include "methods/parameter_server/request.hpp"
#include "methods/parameter_server/rules.hpp"

namespace kolo::methods {
namespace {

Request push_of(std::uint64_t worker, std::uint64_t sequence, std::uint64_t version) {
  return {.kind = RequestKind::push, .worker = worker, .sequence = sequence, .version = version};
}

TEST(ServerRules, StalenessIsInUpdates) {
  const UpdateRules rules({.rule = ServerRule::unbounded}, 2);
  for (const std::uint64_t version : {7U, 10U}) {
    const auto judgement = rules.judge(push_of(1, 1, 7), version);
    EXPECT_EQ(judgement.outcome, PushOutcome::applied);
    EXPECT_EQ(judgement.staleness, version - 7);
    EXPECT_EQ(judgement.factor, 1);
  }
  // Of a server that has started again with fewer updates.
  EXPECT_EQ(rules.judge(push_of(1, 1, 9), 4).staleness, 0U);
}

TEST(ServerRules, LatePushesAreDroppedOrDivided) {
  for (const LatePush late : {LatePush::drop, LatePush::divide}) {
    const UpdateRules rules({.rule = ServerRule::versions, .staleness = 2, .late = late}, 1);
    EXPECT_EQ(rules.judge(push_of(0, 1, 8), 10).outcome, PushOutcome::applied);
    const auto judgement = rules.judge(push_of(0, 1, 6), 10);
    EXPECT_EQ(judgement.staleness, 4U);
    EXPECT_EQ(judgement.outcome, late == LatePush::drop ? PushOutcome::dropped : PushOutcome::divided);
    EXPECT_EQ(judgement.factor, late == LatePush::drop ? 0 : 0.25);
  }
  // Zhang et al.: with a bound of 0 each push is divided by its age, if it has one.
  const UpdateRules always({.rule = ServerRule::versions, .late = LatePush::divide}, 1);
  EXPECT_EQ(always.judge(push_of(0, 1, 10), 10).factor, 1);
  EXPECT_EQ(always.judge(push_of(0, 1, 9), 10).factor, 1);
  EXPECT_EQ(always.judge(push_of(0, 1, 8), 10).factor, 0.5);
}

TEST(ServerRules, APushCountsOnce) {
  UpdateRules rules({.rule = ServerRule::unbounded}, 2);
  rules.workers()[1].sequence = 5;
  EXPECT_EQ(rules.judge(push_of(1, 5, 0), 0).outcome, PushOutcome::repeated);
  EXPECT_EQ(rules.judge(push_of(1, 6, 0), 0).outcome, PushOutcome::applied);
  EXPECT_EQ(rules.judge(push_of(0, 1, 0), 0).outcome, PushOutcome::applied);
}

TEST(ServerRules, ARoundHasAllThatAreLive) {
  UpdateRules rules({}, 3);
  EXPECT_FALSE(rules.is_round_complete());
  rules.workers()[0] = {.status = WorkerStatus::live, .waits = true};
  rules.workers()[1] = {.status = WorkerStatus::live, .waits = true};
  EXPECT_FALSE(rules.is_round_complete()) << "one has not come";
  rules.workers()[2].status = WorkerStatus::live;
  EXPECT_FALSE(rules.is_round_complete());
  for (const WorkerStatus status : {WorkerStatus::lost, WorkerStatus::finished, WorkerStatus::left}) {
    rules.workers()[2].status = status;
    EXPECT_TRUE(rules.is_round_complete());
  }
}

TEST(ServerRules, ClocksHoldUpTheFastestAtTheBound) {
  UpdateRules rules({.rule = ServerRule::clocks, .staleness = 2}, 3);
  const auto set = [&](std::size_t worker, WorkerStatus status, std::uint64_t clock) {
    rules.workers()[worker] = {.status = status, .sequence = clock};
  };
  set(0, WorkerStatus::live, 6);
  set(1, WorkerStatus::live, 5);
  set(2, WorkerStatus::live, 4);
  EXPECT_TRUE(rules.may_go_on(0));
  set(0, WorkerStatus::live, 7);
  EXPECT_FALSE(rules.may_go_on(0));
  EXPECT_TRUE(rules.may_go_on(1));
  EXPECT_TRUE(rules.may_go_on(2));
  set(2, WorkerStatus::live, 5);
  EXPECT_TRUE(rules.may_go_on(0));
  set(2, WorkerStatus::expected, 0);
  EXPECT_FALSE(rules.may_go_on(0));
  set(2, WorkerStatus::lost, 0);
  EXPECT_TRUE(rules.may_go_on(0)) << "nobody waits for the dead";
}

TEST(ServerRequest, AHeaderSaysWhatWasPacked) {
  const RequestLimits limits{.worker = 2, .elements = 10, .rows = 3};
  std::string problem;
  const auto is_served = [&](const Request& request) {
    const auto parsed = parse_request(pack(request), limits, problem);
    EXPECT_EQ(parsed.has_value(), problem.empty());
    EXPECT_EQ(parsed.value_or(request), request);
    return parsed.has_value();
  };
  const Request push{
      .kind = RequestKind::push_pull, .worker = 2, .sequence = 9, .version = 8, .elements = 10};
  EXPECT_TRUE(is_served(push));
  const auto refused = [&](auto change) {
    Request request = push;
    change(request);
    return !is_served(request);
  };
  EXPECT_TRUE(refused([](Request& r) { r.kind = static_cast<RequestKind>(0); }));
  EXPECT_TRUE(refused([](Request& r) { r.kind = static_cast<RequestKind>(8); }));
  EXPECT_TRUE(refused([](Request& r) { r.worker = 1; }));
  EXPECT_TRUE(refused([](Request& r) { r.sequence = 0; }));
  EXPECT_TRUE(refused([](Request& r) { r.elements = 9; }));
  EXPECT_TRUE(refused([](Request& r) { r.rows = 4; }));
  EXPECT_TRUE(refused([](Request& r) { r.kind = RequestKind::pull; }));  // with elements
  EXPECT_FALSE(parse_request(pack(Reply{.version = 3}), limits, problem)) << "an answer is no request";
  const Reply reply{.outcome = PushOutcome::dropped, .staleness = 4, .version = 5, .sequence = 6};
  EXPECT_EQ(parse_reply(pack(reply)), reply);
  EXPECT_FALSE(parse_reply(pack(push)));
}

TEST(ServerRequest, WhateverComesIsWithinTheLimitsOrRefused) {
  std::mt19937_64 random(1);
  int served = 0;
  for (int i = 0; i < 100'000; ++i) {
    Header words = pack(Request{.kind = static_cast<RequestKind>(random() % 9),
                                .worker = random() % 3,
                                .sequence = random() % 3,
                                .elements = random() % 2 * 100,
                                .rows = random() % 9});
    if (random() % 2 == 0) words[random() % words.size()] ^= std::uint64_t{1} << (random() % 64);
    served += fuzz::server_request({reinterpret_cast<const char*>(words.data()), sizeof words}) ? 1 : 0;
  }
  EXPECT_GT(served, 1000);
}

}  // namespace
}  // namespace kolo::methods

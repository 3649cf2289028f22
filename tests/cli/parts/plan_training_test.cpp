// kolo plan training: formulas, each against what can be worked out by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kolo/error.hpp"
#include "plan/training/play.hpp"
#include "plan/training/profile.hpp"
#include "plan/training/ranking.hpp"
#include "plan/training/way_memory.hpp"
#include "plan/training/way_time.hpp"

namespace kolo::test {
namespace {

using plan::Cluster;
using plan::Divided;
using plan::Job;
using plan::ProfiledLayer;
using plan::ReplicaLayer;
using plan::Way;

/// Layers alike: a million parameters, 1 MB of output, 10 ms forward, 20 backward.
Job job_of(std::size_t layers, int hosts, double bytes_per_second = 1e9) {
  Job job;
  job.profile.name = "stack";
  job.profile.batch = 8;
  for (std::size_t i = 0; i < layers; ++i) {
    job.profile.layers.push_back({.name = "layer " + std::to_string(i),
                                  .parameters = 1'000'000,
                                  .activation_bytes = 5e6,
                                  .output_bytes = 1e6,
                                  .forward = 0.01,
                                  .backward = 0.02});
  }
  job.cluster = {.hosts = hosts, .bytes_per_second = bytes_per_second};
  job.samples = 8 * static_cast<std::uint64_t>(hosts);
  job.state_per_parameter = 8;
  return job;
}

plan::WayTime timed(const Job& job, Way way) {
  plan::GroupPrices prices(job.cluster);
  way.first_layers = plan::borders_of(job, way, prices);
  return plan::time_of(job, way, prices);
}

plan::WayMemory held(const Job& job, Way way) {
  plan::GroupPrices prices(job.cluster);
  way.first_layers = plan::borders_of(job, way, prices);
  return plan::memory_of(job, way);
}

TEST(PipelinePlay, StagesAlikeTakeTheTextbooksTime) {
  for (const int p : {1, 2, 4, 7}) {
    for (const int m : {1, 2, 3, 4, 16}) {
      const std::vector<plan::StageTime> stages(static_cast<std::size_t>(p), {.forward = 1, .backward = 2});
      const auto end = plan::play_pipeline(stages, m).last_backward;
      EXPECT_DOUBLE_EQ(end.front(), (m + p - 1) * 3) << p << " stages, " << m << " micro-batches";
      for (int i = 0; i < p; ++i)
        EXPECT_DOUBLE_EQ(end[static_cast<std::size_t>(i)], end.front() - 2 * i)
            << "each stage ends one backward before";
    }
  }
}

TEST(PipelinePlay, TheSlowestStageSetsThePace) {
  const std::vector<plan::StageTime> stages = {{1, 2}, {2, 4}, {1, 2}};
  // The slow stage computes 10 x 6. One forward comes before it, and one backward after it; its first
  // backward waits a second for the last stage's.
  EXPECT_DOUBLE_EQ(plan::play_pipeline(stages, 10).last_backward.front(), 1 + 10 * 6 + 1 + 2);
}

TEST(PipelinePlay, MessagesHideUnderComputing) {
  const plan::StageTime quick{.forward = 1, .backward = 1, .to_next = 0.5, .to_previous = 0.5};
  // There and back once: in a pipeline of two the last stage has nothing to wait for but the first input.
  const double free = plan::play_pipeline({{1, 1}, {1, 1}}, 8).last_backward.front();
  const double taken = plan::play_pipeline({quick, quick}, 8).last_backward.front();
  EXPECT_GE(taken, free + 1);
  EXPECT_LE(taken, free + 8) << "not twice half a second for each micro-batch";
  const plan::StageTime slow{.forward = 1, .backward = 1, .to_next = 5, .to_previous = 5};
  EXPECT_GE(plan::play_pipeline({slow, slow}, 8).last_backward.front(), 8 * 5)
      << "a link carries one at a time";
}

/// So many seconds a byte.
plan::Price at_rate(double seconds_per_byte) {
  return [=](schedule::Collective collective, double bytes) {
    return (collective == schedule::Collective::all_reduce ? 2 : 1) * bytes * seconds_per_byte;
  };
}

TEST(AveragedBackward, BucketsAreAveragedWhileTheNextComputes) {
  const double bucket = 25 << 20;
  const std::vector<ReplicaLayer> layers(4, {.backward = 1, .bytes = bucket});
  // Each layer is a bucket: the first is averaged while the second computes.
  EXPECT_NEAR(plan::play_averaged_backward(layers, at_rate(0.25 / bucket)), 4 + 0.5, 1e-9);
  EXPECT_NEAR(plan::play_averaged_backward(layers, at_rate(1 / bucket)), 1 + 4 * 2, 1e-9);
  EXPECT_NEAR(plan::play_averaged_backward(layers, at_rate(0)), 4, 1e-9);
  const std::vector<ReplicaLayer> small(4, {.backward = 1, .bytes = 1000});
  EXPECT_NEAR(plan::play_averaged_backward(small, at_rate(1e-3)), 4 + 8, 1e-9)
      << "one bucket, ready at the end";
}

TEST(ShardedStep, GathersGoOneAhead) {
  const std::vector<ReplicaLayer> layers(3, {.forward = 1, .backward = 2, .bytes = 100});
  const auto seconds = [&](Divided divided, double message) {
    return plan::play_sharded_step(layers, divided, at_rate(message / 100));
  };
  EXPECT_NEAR(seconds(Divided::gradients, 0), 9, 1e-9);
  // The first gather has nothing to hide under, nor has the last average.
  EXPECT_NEAR(seconds(Divided::gradients, 0.5), 9 + 0.5 + 0.5, 1e-9);
  EXPECT_NEAR(seconds(Divided::optimizer_state, 0.5), seconds(Divided::gradients, 0.5), 1e-9);
  EXPECT_NEAR(seconds(Divided::parameters, 0.5), 9 + 0.5 + 0.5, 1e-9);
  // Where links are slow all is in turns: 3 gathers and 3 averages; with parameters 2 gathers more.
  EXPECT_NEAR(seconds(Divided::gradients, 100), 6 * 100 + 1 + 2, 1e-9);
  EXPECT_GT(seconds(Divided::parameters, 100), 8 * 100);
}

TEST(WayMemory, IsThatOfTheFormulas) {
  const Job job = job_of(10, 4);
  const double p = 1e7, unit = 1e6, activations = 10 * 5e6;
  const auto total = [&](Divided divided) { return held(job, {.data = 4, .divided = divided}).total(); };
  EXPECT_DOUBLE_EQ(total(Divided::nothing), 16 * p + activations);
  EXPECT_DOUBLE_EQ(total(Divided::optimizer_state), 8 * p + 8 * p / 4 + activations);
  EXPECT_DOUBLE_EQ(total(Divided::gradients), 4 * p + 12 * p / 4 + 3 * 4 * unit + activations);
  EXPECT_DOUBLE_EQ(total(Divided::parameters), 16 * p / 4 + (2 + 3) * 4 * unit + activations);
}

TEST(WayMemory, TheFirstStageKeepsMostActivations) {
  const Job job = job_of(8, 4);
  // 32 samples in 8 micro-batches of 4, half a batch; the first of 4 stages keeps 4 of them, of 2 layers.
  const plan::WayMemory memory = held(job, {.stages = 4, .micro_batches = 8});
  EXPECT_DOUBLE_EQ(memory.activations, 4 * 2 * 5e6 / 2);
  EXPECT_DOUBLE_EQ(memory.parameters, 2 * 4e6);
  EXPECT_DOUBLE_EQ(held(job, {.stages = 4, .micro_batches = 2}).activations, 2 * 2 * 5e6 * 2)
      << "all there are";
}

TEST(WayMemory, RanksThatShareALayerKeepItsWholeInput) {
  Job job = job_of(2, 2);
  job.profile.layers[1].tensor_sums = 1e6;
  const plan::WayMemory memory = held(job, {.tensor = 2});
  EXPECT_DOUBLE_EQ(memory.parameters, 4e6 + 4e6 / 2);
  // 16 samples at once, two batches.
  EXPECT_DOUBLE_EQ(memory.activations, 2 * (5e6 + 1e6 + (5e6 - 1e6) / 2));
}

TEST(WayTime, AllWaysComputeTheSameSamples) {
  Job job = job_of(8, 4, 1e15);
  for (ProfiledLayer& layer : job.profile.layers) layer.tensor_sums = 1e6;
  for (Way way : {Way{.data = 4}, Way{.data = 4, .divided = Divided::parameters}, Way{.data = 2, .tensor = 2},
                  Way{.tensor = 4}, Way{.data = 2, .stages = 2, .micro_batches = 4},
                  Way{.stages = 4, .micro_batches = 8}, Way{.tensor = 2, .stages = 2, .micro_batches = 2}}) {
    const plan::WayTime time = timed(job, way);
    EXPECT_NEAR(time.computing, 8 * 0.03, 1e-9) << plan::name_of(way);
    EXPECT_NEAR(time.repeated, 0, 1e-12) << plan::name_of(way);
    const double bubble = (way.stages - 1.0) / way.micro_batches;
    EXPECT_NEAR(time.waiting, 8 * 0.03 * bubble, 1e-9) << plan::name_of(way);
    EXPECT_NEAR(time.step, time.computing + time.waiting + time.communication, 1e-9) << plan::name_of(way);
  }
}

TEST(WayTime, LayersThatCannotBeSharedAreComputedByAll) {
  Job job = job_of(4, 4);
  job.profile.layers[0].tensor_sums = job.profile.layers[1].tensor_sums = 1;
  const plan::WayTime time = timed(job, {.tensor = 4});
  // A replica has the samples of four ranks: two layers by four, two by all.
  EXPECT_NEAR(time.computing, 2 * 0.03 + 2 * 4 * 0.03, 1e-9);
  EXPECT_NEAR(time.repeated, 2 * 3 * 0.03, 1e-9);
}

TEST(WayTime, MessagesTakeWhatTheLinksCarry) {
  // 32 MB of gradients on links of 1 MB/s: a ring of two brings all of them each way.
  const Job slow = job_of(8, 2, 1e6);
  EXPECT_NEAR(timed(slow, {.data = 2}).communication, 32, 1.6);
  EXPECT_NEAR(timed(slow, {.data = 2, .divided = Divided::gradients}).communication, 32, 1.6);
  EXPECT_NEAR(timed(slow, {.data = 2, .divided = Divided::parameters}).communication, 48 - 2, 2.4)
      << "the last unit is gathered once";
  // 16 samples in 4 micro-batches: 2 MB of outputs, and as much of gradients. Both directions at once.
  const double messages = timed(slow, {.stages = 2, .micro_batches = 4}).communication;
  EXPECT_GT(messages, 2);
  EXPECT_LT(messages, 4.5);
}

TEST(WayTime, RanksOfAHostShareItsLink) {
  Job job = job_of(8, 2, 1e6);
  job.cluster.ranks_per_host = 2;
  job.samples = 32;
  // A stage is a host: messages of both replicas leave by one link, and averages stay inside.
  const double both = timed(job, {.data = 2, .stages = 2, .micro_batches = 4}).communication;
  job.cluster = {.hosts = 2, .ranks_per_host = 1, .bytes_per_second = 1e6};
  job.samples = 16;
  const double one = timed(job, {.stages = 2, .micro_batches = 4}).communication;
  EXPECT_NEAR(both, 2 * one, 0.2 * one);
}

TEST(Borders, TheSlowestStageIsAsFastAsItCanBe) {
  Job job = job_of(6, 3);
  const double times[] = {5, 1, 1, 1, 1, 5};
  for (std::size_t i = 0; i < 6; ++i)
    job.profile.layers[i].forward = times[i], job.profile.layers[i].backward = 0;
  plan::GroupPrices prices(job.cluster);
  EXPECT_EQ(plan::borders_of(job, {.stages = 3}, prices), (std::vector<std::size_t>{0, 1, 5}));
}

TEST(Ranking, FastestFirstAndWhatDoesNotFitLast) {
  Job job = job_of(8, 4);
  job.memory = 120e6;  // DistributedDataParallel needs 128 MB for parameters, gradients and state alone
  const auto ranking = plan::ranking_of(job);
  bool fits = true;
  double last = 0;
  for (const auto& ranked : ranking) {
    if (fits && !ranked.fits) last = 0;
    EXPECT_TRUE(fits || !ranked.fits);
    fits = ranked.fits;
    EXPECT_GE(ranked.time.step, last);
    last = ranked.time.step;
    EXPECT_EQ(fits, ranked.memory.total() <= 120e6);
    EXPECT_EQ(fits, ranked.reason.find("does not fit") == std::string::npos) << ranked.reason;
    EXPECT_TRUE(fits || plan::name_of(ranked.way) != "pipeline 4") << "two layers of each";
  }
  EXPECT_TRUE(std::ranges::any_of(ranking, [](const auto& ranked) {
    return !ranked.fits && plan::name_of(ranked.way) == "DistributedDataParallel";
  }));
}

TEST(Ranking, HasAllWaysThatUseTheRanks) {
  Job job = job_of(3, 8);
  const auto names = [&] {
    std::vector<std::string> names;
    for (const Way& way : plan::ways_of(job.profile, 8)) {
      EXPECT_EQ(way.ranks(), 8);
      names.push_back(plan::name_of(way));
    }
    return names;
  };
  const std::vector<std::string> replicas = {
      "DistributedDataParallel", "ShardedDataParallel, optimizer_state", "ShardedDataParallel, gradients",
      "ShardedDataParallel, parameters"};
  std::vector<std::string> expected = replicas;
  expected.push_back("data 4 x pipeline 2");
  EXPECT_EQ(names(), expected) << "three layers are two stages at most, and none can be divided";
  job.profile.layers[1].tensor_sums = 1;
  expected = replicas;
  for (const char* name : {"data 4 x pipeline 2", "data 4 x tensor 2", "data 2 x tensor 2 x pipeline 2",
                           "data 2 x tensor 4", "tensor 4 x pipeline 2", "tensor 8"})
    expected.push_back(name);
  EXPECT_EQ(names(), expected);
}

std::string why_refused(const std::string& text) {
  try {
    plan::parse_profile(text, "model.json");
  } catch (const InvalidArgumentError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ModelProfile, IsReadWithItsUnits) {
  const plan::ModelProfile profile = plan::parse_profile(
      R"({"name": "net", "batch": 16, "made_by": "a program", "layers": [
          {"name": "a", "parameters": 10, "activation_bytes": 20.5, "output_bytes": 30, "forward_ms": 1,
           "backward_ms": 2.5},
          {"name": "b", "parameters": 0, "activation_bytes": 0, "output_bytes": 0, "forward_ms": 0,
           "backward_ms": 0, "tensor_sums": 40, "optimizer_ms": 3}]})",
      "model.json");
  EXPECT_EQ(profile.name, "net");
  EXPECT_EQ(profile.batch, 16u);
  ASSERT_EQ(profile.layers.size(), 2u);
  EXPECT_EQ(profile.layers[0].parameters, 10u);
  EXPECT_DOUBLE_EQ(profile.layers[0].activation_bytes, 20.5);
  EXPECT_DOUBLE_EQ(profile.layers[0].forward, 1e-3);
  EXPECT_DOUBLE_EQ(profile.layers[0].backward, 2.5e-3);
  EXPECT_FALSE(profile.layers[0].is_divisible());
  EXPECT_TRUE(profile.layers[1].is_divisible());
  EXPECT_DOUBLE_EQ(profile.layers[1].optimizer, 3e-3);
}

TEST(ModelProfile, WhatIsWrongIsNamed) {
  const auto expect_refused = [](const std::string& text, const std::string& why) {
    EXPECT_NE(why_refused(text).find(why), std::string::npos) << why_refused(text);
  };
  expect_refused("", "model.json: this is no JSON");
  expect_refused("{\"name\": ", "this is no JSON");
  expect_refused("[]", "an object with name, batch and layers");
  expect_refused(R"({"batch": 1, "layers": []})", "\"name\" is missing");
  expect_refused(R"({"name": 3, "batch": 1, "layers": []})", "\"name\" is 3, but must be a text");
  expect_refused(R"({"name": "n", "layers": []})", "\"batch\" is missing");
  expect_refused(R"({"name": "n", "batch": 0, "layers": []})", "\"batch\" is 0");
  expect_refused(R"({"name": "n", "batch": 1.5, "layers": []})",
                 "\"batch\" is 1.5, but must be a whole number");
  expect_refused(R"({"name": "n", "batch": 1})", "\"layers\" is missing");
  expect_refused(R"({"name": "n", "batch": 1, "layers": {}})", "must be a list");
  expect_refused(R"({"name": "n", "batch": 1, "layers": []})", "\"layers\" is empty");
  expect_refused(R"({"name": "n", "batch": 1, "layers": [3]})", "layer 0: it is 3, but must be an object");
  const auto with = [](const std::string& key, const std::string& value) {
    std::string layer = R"("name": "a")";
    for (const char* name : {"parameters", "activation_bytes", "output_bytes", "forward_ms", "backward_ms"}) {
      if (name != key) layer += ", \"" + std::string(name) + "\": 1";
    }
    if (!value.empty()) layer += ", \"" + key + "\": " + value;
    return R"({"name": "n", "batch": 1, "layers": [{)" + layer + "}]}";
  };
  EXPECT_EQ(why_refused(with("parameters", "1")), "accepted");
  for (const char* key : {"parameters", "activation_bytes", "output_bytes", "forward_ms", "backward_ms"}) {
    const std::string where = "model.json: layer 0 (\"a\"): \"" + std::string(key) + "\" is ";
    expect_refused(with(key, ""), where + "missing");
    expect_refused(with(key, "-1"), where + "-1, but must be a number from 0");
    expect_refused(with(key, "null"), where + "null");
    expect_refused(with(key, "\"2\""), where + "\"2\"");
    expect_refused(with(key, "NaN"), "JSON has no NaN and no Infinity");
    expect_refused(with(key, "1e300"), "from 0 to 10^15");
  }
  expect_refused(with("parameters", "0.5"), "must be a whole number");
  expect_refused(with("tensor_sums", "-1"), "\"tensor_sums\" is -1");
  expect_refused(with("optimizer_ms", "true"), "\"optimizer_ms\" is true");
}

}  // namespace
}  // namespace kolo::test

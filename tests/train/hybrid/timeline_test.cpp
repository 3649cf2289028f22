// All wrappers record their spans on the timeline of their communicator.
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/group_functions.hpp"
#include "kolo/train/local.hpp"
#include "kolo/train/pipeline_parallel.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "kolo/train/sync_batch_norm.hpp"
#include "train/support/models.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::hybrid {
namespace {

/// The names of the spans on the tracks of training.
std::set<std::string> names_on(const Timeline& timeline) {
  const auto events = nlohmann::json::parse('[' + timeline.chrome_events(0) + ']');
  std::set<nlohmann::json> rows;
  for (const auto& event : events) {
    if (event["name"] != "thread_name") continue;
    const std::string track = event["args"]["name"];
    if (track.starts_with("compute") || track.starts_with("buckets")) rows.insert(event["tid"]);
  }
  std::set<std::string> names;
  for (const auto& event : events)
    if (event["ph"] == "X" && rows.contains(event["tid"])) names.insert(event["name"]);
  return names;
}

void train_in_all_ways(Communicator& communicator) {
  const at::Tensor input = numbers(4, 3, 1), target = numbers(4, 3, 2);
  torch::nn::Linear plain(3, 3);
  DistributedDataParallel<torch::nn::LinearImpl> parallel(plain, communicator);
  squares(parallel(input), target).backward();

  ShardedDataParallel<torch::nn::LinearImpl> sharded(torch::nn::Linear(3, 3), communicator,
                                                     {.shard = Shard::parameters});
  squares(sharded(input), target).backward();

  torch::nn::Sequential two(torch::nn::Linear(3, 3), torch::nn::Linear(3, 3));
  torch::nn::Linear late(3, 3), local(3, 3);
  PipelineParallel pipeline(PipelineModel{two}, squares, communicator,
                            {.micro_batches = 2, .data = communicator.split(communicator.rank())});
  pipeline.step(input, target);

  DelayedAverages delayed(*late, communicator);
  squares(late(input), target).backward();
  delayed.step();
  delayed.finish();
  ModelAverager averager(*local, communicator, {.period = 1});
  averager.step();

  SyncBatchNorm norm(3, communicator);
  const at::Tensor x = numbers(4, 3, 3).set_requires_grad(true);
  reduce_from_group(copy_to_group(norm(x), communicator), communicator).sum().backward();
  gather_sequence(x, 0, communicator).sum().backward();
  all_to_all(x, 0, 1, communicator);
  const at::Tensor q = numbers(2, 8, 4).view({1, 2, 2, 4});
  ring_attention(q, q, q, communicator);
}

TEST(TrainingTimeline, HasSpansOfAllWrappers) {
  std::vector<std::shared_ptr<Timeline>> timelines{std::make_shared<Timeline>(),
                                                   std::make_shared<Timeline>()};
  const auto record = [&](Options& options, int rank) {
    options.timeline = timelines[static_cast<std::size_t>(rank)];
  };
  for (const auto& error : run_ranks(2, train_in_all_ways, record)) EXPECT_EQ(message(error), "");
  for (const int rank : {0, 1}) {
    const std::set<std::string> names = names_on(*timelines[static_cast<std::size_t>(rank)]);
    for (const char* name :
         {"wait", "bucket 0", "forward 0", "forward 1", "backward 0", "backward 1", "averages over pipelines",
          "wait for averages", "averages", "average of models", "batch statistics",
          "gradients of batch statistics", "sum over group", "gather over group", "scatter over group",
          "exchange over group", "wait for ring", "wait for unit 0",
          rank == 0 ? "wait for gradient 1" : "wait for output 1"})
      EXPECT_TRUE(names.contains(name)) << name << " on rank " << rank;
  }
}

TEST(TrainingTimeline, IsNotNeeded) {
  run_all(2, [](Communicator& communicator) {
    EXPECT_EQ(communicator.timeline(), nullptr);
    train_in_all_ways(communicator);
  });
}

}  // namespace
}  // namespace kolo::test::hybrid

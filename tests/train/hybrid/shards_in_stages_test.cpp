// A stage in shards sends its gradients once a step, whatever the number of micro-batches.
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/optim/sgd.h>

#include <atomic>
#include <memory>
#include <vector>

#include "kolo/train/pipeline_parallel.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "train/support/models.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::hybrid {
namespace {

constexpr std::int64_t kWidth = 128;
constexpr int kRanks = 2;

struct Sent {
  double bytes = 0;               ///< of all ranks in one step; over TCP, as shared memory is not counted
  std::vector<at::Tensor> model;  ///< after some steps
};

Sent train(int micro_batches) {
  Sent result;
  std::atomic<std::uint64_t> sent = 0;
  const auto over_tcp = [](Options& options, int) { options.transports = "tcp"; };
  const auto errors = run_ranks(
      kRanks,
      [&](Communicator& communicator) {
        at::set_num_threads(1);
        torch::nn::Sequential net(torch::nn::Linear(kWidth, kWidth), torch::nn::Tanh(),
                                  torch::nn::Linear(kWidth, kWidth));
        fill(*net, 1);
        const auto shards = std::make_shared<ShardedDataParallel<torch::nn::SequentialImpl>>(
            net, communicator, ShardedDataParallelOptions{.shard = Shard::gradients});
        PipelineParallel pipeline(
            std::vector<PipelineStage>{PipelineStage(
                net.ptr(), [shards](const at::Tensor& x) -> at::Tensor { return (*shards)(x); })},
            squares, communicator.split(communicator.rank()), {.micro_batches = micro_batches});
        torch::optim::SGD optimizer(shards->parameters(), 0.1);
        std::uint64_t before = 0;
        for (int step = 0; step < 4; ++step) {
          if (step == 3) {
            communicator.barrier();
            before = communicator.counters().bytes_sent;
          }
          optimizer.zero_grad();
          pipeline.step(numbers(8, kWidth, 10 * step + communicator.rank()), numbers(8, kWidth, 900));
          EXPECT_EQ(shards->total().steps, static_cast<std::uint64_t>(step) + 1);
          optimizer.step();
        }
        sent += communicator.counters().bytes_sent - before;
        const auto whole = shards->whole();
        if (communicator.rank() != 0) return;
        for (const at::Tensor& parameter : net->parameters())
          result.model.push_back(parameter.detach().clone());
      },
      over_tcp);
  for (const auto& error : errors) EXPECT_EQ(message(error), "");
  result.bytes = static_cast<double>(sent);
  return result;
}

TEST(ShardsInStages, GradientsTravelOnceAStep) {
  const Sent once = train(1), often = train(4);
  const double all = 4.0 * 2 * kWidth * (kWidth + 1) * (kRanks - 1);  // gradients; parameters as much
  EXPECT_NEAR(once.bytes, 2 * all, 0.02 * all);
  EXPECT_NEAR(often.bytes, once.bytes, 0.02 * all);
  ASSERT_EQ(once.model.size(), often.model.size());
  for (std::size_t i = 0; i < once.model.size(); ++i)
    EXPECT_TRUE(at::allclose(once.model[i], often.model[i], 1e-5, 1e-6)) << "parameter " << i;
}

}  // namespace
}  // namespace kolo::test::hybrid

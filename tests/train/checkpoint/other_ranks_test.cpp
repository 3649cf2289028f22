// A checkpoint goes from any wrapper and number of ranks to any other, bit for bit.
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <filesystem>
#include <functional>
#include <memory>

#include "checkpoint/reader.hpp"
#include "kolo/train/checkpoint.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/hooks.hpp"
#include "kolo/train/optim.hpp"
#include "kolo/train/parallel_layers.hpp"
#include "kolo/train/pipeline_parallel.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "support/temporary_folder.hpp"
#include "train/support/models.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::checkpoints {
namespace {

enum class Kind { plain, averaged, shards_of_state, shards_of_gradients, shards, layers, stages };

using Tensors = std::vector<at::Tensor>;
using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(const Tensors&)>;

/// A weight that does not lie row-major, and one that is not trained.
struct OddImpl : torch::nn::Module {
  OddImpl() {
    kernel = register_parameter("kernel", at::zeros({3, 5, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast));
    frozen = register_parameter("frozen", at::zeros({7}), false);
  }
  at::Tensor forward(const at::Tensor& x) { return x; }

  at::Tensor kernel, frozen;
};
TORCH_MODULE(Odd);

/// Layers of odd widths, which no number of ranks divides, and a normalization with buffers.
torch::nn::Sequential make_net(const Communicator* group) {
  torch::nn::Sequential net;
  if (group == nullptr) {
    net->push_back(torch::nn::Linear(6, 11));
    net->push_back(torch::nn::Linear(11, 5));
  } else {
    // Ranks are threads, which share libtorch's generator.
    const auto generator = at::make_generator<at::CPUGeneratorImpl>(1);
    net->push_back(ColumnParallelLinear(
        ColumnParallelLinearOptions{.in_features = 6, .out_features = 11, .generator = generator}, *group));
    net->push_back(RowParallelLinear(
        RowParallelLinearOptions{.in_features = 11, .out_features = 5, .generator = generator}, *group));
  }
  net->push_back(torch::nn::BatchNorm1d(5));
  net->push_back(Odd());
  return net;
}

struct Trained {
  Trained(Kind kind, Communicator& communicator, const MakeOptimizer& make)
      : net(make_net(kind == Kind::layers ? &communicator : nullptr)) {
    Tensors parameters = net->parameters();
    if (kind == Kind::averaged) {
      averaged = std::make_unique<DistributedDataParallel<torch::nn::SequentialImpl>>(net, communicator);
      checkpoint.add("model", *averaged);
    } else if (kind == Kind::stages) {
      staged = std::make_unique<PipelineParallel>(PipelineModel{net, {}}, squares, communicator);
      parameters = staged->parameters();
      checkpoint.add("model", *staged);
    } else if (kind == Kind::plain || kind == Kind::layers) {
      checkpoint.add("model", *net);
    } else {
      const Shard shard = kind == Kind::shards            ? Shard::parameters
                          : kind == Kind::shards_of_state ? Shard::optimizer_state
                                                          : Shard::gradients;
      sharded = std::make_unique<ShardedDataParallel<torch::nn::SequentialImpl>>(
          net, communicator, ShardedDataParallelOptions{.shard = shard});
      parameters = sharded->parameters();
      checkpoint.add("model", *sharded);
    }
    optimizer = make(parameters);
    checkpoint.add("optimizer", *optimizer);
  }
  /// Steps of one process.
  void steps(int first, int last) {
    for (int step = first; step < last; ++step) {
      for (at::Tensor& parameter : net->parameters()) {
        if (!parameter.requires_grad()) continue;
        parameter.mutable_grad() =
            at::empty_like(parameter).copy_(numbers(1, parameter.numel(), step).view(parameter.sizes()));
      }
      optimizer->step();
    }
  }

  at::Tensor buffer() const { return *net->named_buffers().find("2.running_mean"); }

  torch::nn::Sequential net;
  std::unique_ptr<DistributedDataParallel<torch::nn::SequentialImpl>> averaged;
  std::unique_ptr<ShardedDataParallel<torch::nn::SequentialImpl>> sharded;
  std::unique_ptr<PipelineParallel> staged;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  Checkpoint checkpoint;
};

class OtherRanks : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
  std::string folder(int number) const { return temporary_ / std::to_string(number); }

  /// One process trains and saves; then each of the runs loads what the one before has saved, and saves it.
  void expect_the_same(const MakeOptimizer& make, const std::vector<std::pair<Kind, int>>& runs) {
    std::vector<std::uint8_t> expected;
    run_all(1, [&](Communicator& communicator) {
      Trained run(Kind::plain, communicator, make);
      fill(*run.net, 1);
      run.buffer().fill_(3);
      run.steps(0, 2);
      run.checkpoint.save(folder(0), 0, communicator);
      run.steps(2, 4);
      expected = bits(run.net->parameters());
    });
    int number = 0;
    for (const auto& [kind, ranks] : runs) {
      run_all(ranks, [&, kind = kind](Communicator& communicator) {
        Trained run(kind, communicator, make);
        run.checkpoint.load(folder(number), communicator);
        run.checkpoint.save(folder(number + 1), 0, communicator);
      });
      ++number;
      run_all(1, [&, kind = kind, ranks = ranks](Communicator& communicator) {
        Trained run(Kind::plain, communicator, make);
        run.checkpoint.load(folder(number), communicator);
        EXPECT_EQ(run.buffer().sum().item().toFloat(), 15);
        run.steps(2, 4);
        EXPECT_EQ(bits(run.net->parameters()), expected)
            << "kind " << static_cast<int>(kind) << ", " << ranks << " ranks";
      });
    }
  }

  const TemporaryFolder temporary_;
};

TEST_F(OtherRanks, GoOnWithTheSameBits) {
  std::vector<std::pair<Kind, int>> runs;
  for (const int ranks : {4, 2, 3, 1}) {
    for (const Kind kind : {Kind::shards, Kind::layers, Kind::averaged, Kind::shards_of_state,
                            Kind::shards_of_gradients, Kind::stages, Kind::layers, Kind::shards})
      runs.emplace_back(kind, ranks);
  }
  // From each number of ranks to each other one.
  for (const int ranks : {4, 1, 2, 4, 3, 2, 1, 3, 4})
    runs.emplace_back(ranks % 2 == 0 ? Kind::shards : Kind::layers, ranks);
  for (const int ranks : {3, 2, 4, 1, 4}) runs.emplace_back(Kind::shards, ranks);
  expect_the_same(
      [](const Tensors& parameters) {
        return std::make_unique<torch::optim::Adam>(parameters,
                                                    torch::optim::AdamOptions(0.01).amsgrad(true));
      },
      runs);
}

TEST_F(OtherRanks, TakeWhatEachOptimizerKeeps) {
  const std::vector<MakeOptimizer> all{
      [](const Tensors& list) { return std::make_unique<torch::optim::SGD>(list, 0.1); },
      [](const Tensors& list) {
        return std::make_unique<torch::optim::SGD>(list, torch::optim::SGDOptions(0.1).momentum(0.9));
      },
      [](const Tensors& list) { return std::make_unique<torch::optim::AdamW>(list); },
      [](const Tensors& list) {
        return std::make_unique<torch::optim::RMSprop>(
            list, torch::optim::RMSpropOptions(0.1).momentum(0.9).centered(true));
      },
      [](const Tensors& list) { return std::make_unique<torch::optim::Adagrad>(list); },
      [](const Tensors& list) { return std::make_unique<LARS>(list, LARSOptions(0.1)); },
      [](const Tensors& list) { return std::make_unique<LAMB>(list, LAMBOptions(0.1)); }};
  for (const MakeOptimizer& make : all) {
    expect_the_same(make, {{Kind::shards, 3}, {Kind::layers, 2}, {Kind::stages, 2}});
    std::filesystem::remove_all(temporary_.path());
  }
}

TEST_F(OtherRanks, WriteAboutAsMuchEach) {
  for (const Kind kind : {Kind::averaged, Kind::shards, Kind::layers}) {
    run_all(3, [&, kind](Communicator& communicator) {
      Trained run(kind, communicator,
                  [](const Tensors& list) { return std::make_unique<torch::optim::Adam>(list); });
      run.checkpoint.save(folder(0), 0, communicator);
    });
    const train::CheckpointReader reader(folder(0) + "/step-0");
    std::map<int, std::uint64_t> bytes;
    std::uint64_t sum = 0;
    for (const auto& [name, tensor] : reader.index().tensors) {
      if (tensor.dtype != "F32") continue;
      for (const auto& [region, files] : tensor.parts) {
        const std::uint64_t count = train::bytes_of(tensor, region);
        bytes[files.front()] += count, sum += count;
      }
    }
    std::uint64_t expected = 0;
    for (const at::Tensor& tensor : make_net(nullptr)->parameters()) expected += tensor.nbytes();
    for (const at::Tensor& tensor : make_net(nullptr)->buffers())
      expected += tensor.numel() > 1 ? tensor.nbytes() : 0;
    EXPECT_EQ(sum, expected);  // each element once
    for (const auto& [file, count] : bytes)
      EXPECT_LE(count, sum / 3 + 5 * 3 * 4 * 4) << file;  // the largest tensor
  }
}

TEST_F(OtherRanks, BeginWithWhatHooksOfTheSavedRanksHaveLeftOut) {
  const auto left_out = [](int rank) {
    return HookState{{"left out of 0.weight", {static_cast<float>(rank)}}};
  };
  run_all(2, [&](Communicator& communicator) {
    const auto hook = make_gradient_hook("one_bit");
    hook->set_state(left_out(communicator.rank()));
    Checkpoint checkpoint;
    checkpoint.add("hook", *hook).save(folder(0), 1, communicator);
  });
  for (const int ranks : {1, 3}) {
    run_all(ranks, [&](Communicator& communicator) {
      const auto hook = make_gradient_hook("one_bit");
      Checkpoint checkpoint;
      checkpoint.add("hook", *hook).load(folder(0), communicator);
      EXPECT_EQ(hook->state(), left_out(communicator.rank() % 2));
    });
  }
}

TEST_F(OtherRanks, ReadTheFilesThatTheyNeed) {
  run_all(2, [&](Communicator& communicator) {
    Trained run(Kind::layers, communicator,
                [](const Tensors& list) { return std::make_unique<torch::optim::Adam>(list); });
    run.checkpoint.save(folder(0), 0, communicator);
  });
  std::filesystem::remove(folder(0) + "/step-0/rank-1.safetensors");
  train::CheckpointReader reader(folder(0) + "/step-0");
  PlacedParameter rows{.name = "0.weight", .tensor = {}, .whole = {11, 6}, .region = {.cut = Slice{1, 4}}};
  EXPECT_EQ(reader.read(rows).sizes(), at::IntArrayRef({4, 6}));
  rows.region.cut = Slice{1, 6};  // of which the other rank has one
  EXPECT_THROW(reader.read(rows), std::runtime_error);
}

}  // namespace
}  // namespace kolo::test::checkpoints

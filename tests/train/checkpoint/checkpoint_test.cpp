// Training that goes on from a checkpoint has the bits of training that was never interrupted.
#include "kolo/train/checkpoint.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/optim/adam.h>
#include <torch/utils.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "kolo/train/data.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/hooks.hpp"
#include "support/temporary_folder.hpp"
#include "train/support/models.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::checkpoints {
namespace {

/// The one whose sums begin at another rank in each part of a bucket: bits depend on where numbers lie.
[[maybe_unused]] const int kAlgorithmIsSet = ::setenv("KOLO_ALGORITHM", "ring", 1);

class Checkpoints : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }

  const TemporaryFolder temporary_;
  const std::string path_ = temporary_ / "run";
};

/// All that a training program holds.
struct Training {
  explicit Training(Communicator& communicator, const std::string& hook_name = "one_bit")
      : hook(make_gradient_hook(hook_name)),
        model(Chain(0), communicator, options_with(hook)),
        optimizer(model.parameters(), torch::optim::AdamOptions(0.01)),
        sampler(64, communicator.rank(), communicator.size()) {
    checkpoint.add("model", model.model())
        .add("optimizer", optimizer)
        .add("hook", *hook)
        .add("sampler", sampler);
  }
  static DistributedDataParallelOptions options_with(std::shared_ptr<GradientHook> hook) {
    auto options = small_buckets();
    options.hook = std::move(hook);
    return options;
  }
  void step(int number, int rank) {
    sampler.set_epoch(static_cast<std::uint64_t>(number / 3));
    optimizer.zero_grad();
    const double seed =
        static_cast<double>(sampler.indices()[static_cast<std::size_t>(number % 3)]) + 100 * rank;
    squares(model(numbers(6, 8, seed)), numbers(6, 4, 3)).backward();
    optimizer.step();
  }

  std::shared_ptr<GradientHook> hook;
  DistributedDataParallel<ChainImpl> model;
  torch::optim::Adam optimizer;
  DistributedSampler sampler;
  Checkpoint checkpoint;
};

TEST_F(Checkpoints, TrainingGoesOnWithTheSameBits) {
  for (const char* hook : {"one_bit", "top_k:ratio=0.1:momentum=0", "power_sgd:rank=1"}) {
    std::vector<std::uint8_t> expected;
    run_all(3, [&](Communicator& communicator) {
      Training training(communicator, hook);
      for (int step = 0; step < 8; ++step) {
        if (step == 5) training.checkpoint.save(path_, 5, communicator);
        training.step(step, communicator.rank());
      }
      if (communicator.rank() == 0) expected = bits(training.model.parameters());
    });
    run_all(3, [&](Communicator& communicator) {
      Training training(communicator, hook);
      training.step(0, communicator.rank());  // all that it has is written over
      ASSERT_EQ(training.checkpoint.load(path_, communicator), 5u);
      EXPECT_EQ(training.sampler.epoch(), 1u);
      for (int step = 5; step < 8; ++step) training.step(step, communicator.rank());
      EXPECT_EQ(bits(training.model.parameters()), expected) << hook << ", rank " << communicator.rank();
    });
  }
}

/// Layers that are registered in another order than they run in, so that buckets after the first backward are
/// not those before it.
struct ShuffledImpl : torch::nn::Module {
  ShuffledImpl() {
    for (const std::size_t i : {2U, 0U, 3U, 1U})
      layers[i] = register_module("layer" + std::to_string(i), torch::nn::Linear(24, 24));
    fill(*this, 1);
  }
  at::Tensor forward(at::Tensor x) {
    for (auto& layer : layers) x = at::tanh(layer(x));
    return x;
  }
  std::array<torch::nn::Linear, 4> layers{nullptr, nullptr, nullptr, nullptr};
};
TORCH_MODULE(Shuffled);

/// Steps of training with a model and an optimizer of its own, whose sums depend on where numbers lie.
struct ShuffledTraining {
  ShuffledTraining(Communicator& communicator, const DistributedDataParallelOptions& options)
      : model(Shuffled(), communicator, options),
        optimizer(model.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)) {
    checkpoint.add("model", model.model()).add("optimizer", optimizer);
  }
  void steps(int begin, int end, int rank) {
    for (int step = begin; step < end; ++step) {
      optimizer.zero_grad();
      squares(model(numbers(5, 24, step + 100 * rank)), numbers(5, 24, 7 + rank)).backward();
      optimizer.step();
    }
  }

  DistributedDataParallel<ShuffledImpl> model;
  torch::optim::SGD optimizer;
  Checkpoint checkpoint;
};

TEST_F(Checkpoints, BucketsAreLaidOutAsTheyWere) {
  DistributedDataParallelOptions many;
  many.first_bucket_bytes = 2000;
  many.bucket_bytes = 5000;
  auto as_registered = many, measured = many;
  as_registered.rebuild_buckets = false;
  measured.bucket_borders = BucketBorders::measured;
  int variant = 0;
  for (const auto& options : {DistributedDataParallelOptions(), many, as_registered, measured}) {
    // Measured borders stay as they are after three rounds of six steps.
    const int end = variant == 3 ? 24 : 6;
    for (const int middle : {0, end - 3}) {
      if (variant == 3 && middle == 0) continue;
      std::vector<std::uint8_t> expected;
      run_all(3, [&](Communicator& communicator) {
        ShuffledTraining training(communicator, options);
        training.steps(0, middle, communicator.rank());
        training.checkpoint.save(path_, 1, communicator);
        training.steps(middle, end, communicator.rank());
        if (communicator.rank() == 0) expected = bits(training.model.parameters());
      });
      for (const int before : {0, 1}) {
        run_all(3, [&](Communicator& communicator) {
          ShuffledTraining training(communicator, options);
          training.steps(0, before, communicator.rank());
          training.checkpoint.load(path_, communicator);
          training.steps(middle, end, communicator.rank());
          EXPECT_EQ(bits(training.model.parameters()), expected)
              << "options " << variant << ", from step " << middle << ", loaded after " << before;
        });
      }
    }
    ++variant;
  }
}

TEST_F(Checkpoints, AModelThatIsLoadedBeforeItIsWrappedGoesOnToTheLastBits) {
  std::vector<at::Tensor> expected;
  run_all(3, [&](Communicator& communicator) {
    ShuffledTraining training(communicator, {});
    training.steps(0, 3, communicator.rank());
    training.checkpoint.save(path_, 3, communicator);
    training.steps(3, 6, communicator.rank());
    if (communicator.rank() == 0) expected = training.model.parameters();
  });
  run_all(3, [&](Communicator& communicator) {
    Shuffled plain;
    torch::optim::SGD optimizer(plain->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    Checkpoint().add("model", *plain).add("optimizer", optimizer).load(path_, communicator);
    DistributedDataParallel model(plain, communicator);
    for (int step = 3; step < 6; ++step) {
      optimizer.zero_grad();
      const int rank = communicator.rank();
      squares(model(numbers(5, 24, step + 100 * rank)), numbers(5, 24, 7 + rank)).backward();
      optimizer.step();
    }
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(at::allclose(model.parameters()[i], expected[i], 1e-5, 1e-6)) << i;
  });
}

TEST_F(Checkpoints, RandomNumbersGoOn) {
  run_all(1, [&](Communicator& communicator) {
    Checkpoint checkpoint;
    torch::manual_seed(7);
    checkpoint.save(path_, 0, communicator);
    checkpoint.wait();
    const at::Tensor expected = at::rand({10});
    Checkpoint().load(path_, communicator);
    EXPECT_TRUE(at::equal(at::rand({10}), expected));
  });
}

TEST_F(Checkpoints, WithoutHooksOtherNumbersOfRanksGoOn) {
  run_all(3, [&](Communicator& communicator) {
    Chain chain(1);
    Checkpoint().add("model", *chain).save(path_, 12, communicator);
  });
  run_all(2, [&](Communicator& communicator) {
    Chain chain(50 + communicator.rank());
    EXPECT_EQ(Checkpoint().add("model", *chain).load(path_, communicator), 12u);
    EXPECT_EQ(bits(chain->parameters()), bits(Chain(1)->parameters()));
  });
}

TEST_F(Checkpoints, AnythingMayBeEachRanksOwn) {
  run_all(3, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    const auto epoch = static_cast<std::uint64_t>(10 + rank);
    DistributedSampler sampler(64, rank, 3), loaded(64, rank, 3);
    sampler.set_epoch(epoch);
    Checkpoint().add_own("sampler", sampler).save(path_, 4, communicator);
    EXPECT_EQ(Checkpoint().add_own("sampler", loaded).load(path_, communicator), 4u);
    EXPECT_EQ(loaded.epoch(), epoch);
  });
}

TEST_F(Checkpoints, AreCopiesThatTrainingDoesNotChange) {
  run_all(2, [&](Communicator& communicator) {
    Training training(communicator);
    training.step(0, communicator.rank());
    const auto expected = bits(training.model.parameters());
    for (int step = 1; step < 4; ++step) {
      training.checkpoint.save(path_, static_cast<std::uint64_t>(step), communicator);
      if (step == 1) training.step(step, communicator.rank());
    }
    training.checkpoint.wait();
    training.step(4, communicator.rank());
    EXPECT_EQ(training.checkpoint.load(path_ + "/step-2", communicator), 2U);
    EXPECT_NE(bits(training.model.parameters()), expected);
    EXPECT_THROW(training.checkpoint.load(path_ + "/step-1", communicator), Error);  // two are kept
  });
}

TEST_F(Checkpoints, HaveEachNameOnce) {
  Chain chain(1);
  Checkpoint checkpoint;
  checkpoint.add("model", *chain);
  EXPECT_THROW(checkpoint.add("model", *chain), InvalidArgumentError);
}

}  // namespace
}  // namespace kolo::test::checkpoints

// LossScaler: small gradients survive float16, overflow skips a step on all ranks, and NaN is told from it.
#include "kolo/train/precision.hpp"

#include <gtest/gtest.h>
#include <torch/nn/modules/embedding.h>
#include <torch/serialize.h>

#include <limits>
#include <sstream>

#include "kolo/error.hpp"
#include "kolo/train/checkpoint.hpp"
#include "kolo/train/hooks.hpp"
#include "kolo/train/optim.hpp"
#include "train/support/models.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::precision {
namespace {

/// The two ways in which gradients travel in float16.
DistributedDataParallelOptions in_float16(bool by_hook) {
  auto options = small_buckets();
  if (by_hook) {
    options.hook = make_gradient_hook("float16");
  } else {
    options.wire = Wire::float16;
  }
  return options;
}

/// A loss whose gradients are `factor` times those of the model's output.
at::Tensor loss_of(DistributedDataParallel<ChainImpl>& model, double factor) {
  return model(numbers(4, 8, 1)).sum() * factor;
}

TEST(LossScaler, GradientsTooSmallForFloat16Survive) {
  for (const bool by_hook : {false, true}) {
    run_all(2, [&](Communicator& communicator) {
      DistributedDataParallel model(Chain(1), communicator, in_float16(by_hook));
      torch::optim::SGD optimizer(model.parameters(), 1);
      loss_of(model, 1e-9).backward();
      EXPECT_EQ(model->third->bias.grad().abs().sum().item<double>(), 0) << "without a scale they are lost";

      LossScaler scaler(model, {});
      optimizer.zero_grad();
      scaler.scale(loss_of(model, 1e-9)).backward();
      EXPECT_TRUE(scaler.step(optimizer));
      EXPECT_NEAR(model->third->bias.grad()[0].item<double>(), 4e-9, 4e-12);
    });
  }
}

TEST(LossScaler, OverflowOnOneRankSkipsTheStepOnAll) {
  for (const bool by_hook : {false, true}) {
    run_all(3, [&](Communicator& communicator) {
      DistributedDataParallel model(Chain(1), communicator, in_float16(by_hook));
      torch::optim::SGD optimizer(model.parameters(), 0.1);
      LossScaler scaler(model, {.initial_scale = 1024});
      const auto before = bits(model.parameters());
      scaler.scale(loss_of(model, communicator.rank() == 1 ? 1e4 : 1)).backward();
      EXPECT_FALSE(scaler.step(optimizer));
      EXPECT_EQ(bits(model.parameters()), before);
      EXPECT_EQ(scaler.scale(), 512);
      EXPECT_EQ(scaler.skipped_steps(), 1u);

      optimizer.zero_grad();
      scaler.scale(loss_of(model, 1)).backward();
      EXPECT_TRUE(scaler.step(optimizer));
      EXPECT_NE(bits(model.parameters()), before);
      EXPECT_TRUE(same_everywhere(communicator, bits(model.parameters())));
    });
  }
}

TEST(LossScaler, ScaleOfAPowerOfTwoChangesNoBit) {
  run_all(2, [](Communicator& communicator) {
    std::vector<std::vector<std::uint8_t>> trained;
    for (const double scale : {1.0, 4096.0}) {
      DistributedDataParallel model(Chain(1), communicator, small_buckets());
      torch::optim::SGD optimizer(model.parameters(), 0.1);
      LossScaler scaler(model, {.initial_scale = scale, .growth_interval = 2});
      for (int step = 0; step < 5; ++step) {
        optimizer.zero_grad();
        scaler.scale(squares(model(numbers(8, 8, communicator.rank() + step)), numbers(8, 4, 3))).backward();
        EXPECT_TRUE(scaler.unscale(optimizer));
        clip_gradients(model.parameters(), 0.5);
        EXPECT_TRUE(scaler.step(optimizer));
      }
      EXPECT_EQ(scaler.scale(), 4 * scale) << "it has grown twice";
      trained.push_back(bits(model.parameters()));
    }
    EXPECT_EQ(trained[0], trained[1]);
  });
}

struct TableImpl : torch::nn::Module {
  TableImpl() : table(torch::nn::EmbeddingOptions(6, 4).sparse(true)), output(4, 2) {
    register_module("table", table);
    register_module("output", output);
    fill(*this, 1);
  }
  at::Tensor forward(const at::Tensor& words) { return output(table(words)); }

  torch::nn::Embedding table;
  torch::nn::Linear output;
};
TORCH_MODULE(Table);

TEST(LossScaler, RowsOfSparseTablesAreScaledAndSkippedToo) {
  run_all(2, [](Communicator& communicator) {
    DistributedDataParallel plain(Table(), communicator, small_buckets()),
        scaled(Table(), communicator, small_buckets());
    torch::optim::SGD plain_steps(plain.parameters(), 0.1), scaled_steps(scaled.parameters(), 0.1);
    LossScaler scaler(scaled, {.initial_scale = 1024});
    const at::Tensor words = at::tensor({1, 4 - communicator.rank()}, at::kLong);
    plain(words).square().sum().backward();
    plain_steps.step();
    scaler.scale(scaled(words).square().sum()).backward();
    EXPECT_TRUE(scaler.step(scaled_steps));
    EXPECT_EQ(bits(plain.parameters()), bits(scaled.parameters()));

    scaled_steps.zero_grad();
    const double factor = communicator.rank() == 1 ? 1e38 : 1;  // infinite when it is scaled
    scaler.scale(scaled(words).square().sum() * factor).backward();
    EXPECT_FALSE(scaler.step(scaled_steps));
    EXPECT_EQ(bits(plain.parameters()), bits(scaled.parameters()));
  });
}

/// Besides the chain a parameter that each rank has for itself.
struct WithOwnImpl : ChainImpl {
  WithOwnImpl() : ChainImpl(1) { own = register_parameter("own", at::ones({1})); }
  at::Tensor own;
};

TEST(LossScaler, TensorsThatAreNotAveragedAreScaledAndSkippedToo) {
  run_all(2, [](Communicator& communicator) {
    auto options = small_buckets();
    options.ignored = {"own"};
    DistributedDataParallel model(std::make_shared<WithOwnImpl>(), communicator, options);
    at::Tensor outside = at::ones({1}).set_requires_grad(true);
    auto tensors = model.parameters();
    tensors.push_back(outside);
    tensors.push_back(outside);  // as a tied weight is listed
    torch::optim::SGD optimizer(tensors, 0.25);
    LossScaler scaler(model, {});
    const auto loss = [&](double factor) {
      return model(numbers(4, 8, 1)).sum() + (model->own * 2 * factor).sum() + outside.sum();
    };
    scaler.scale(loss(1)).backward();
    EXPECT_TRUE(scaler.step(optimizer));
    EXPECT_EQ(model->own.item<double>(), 0.5);
    EXPECT_EQ(outside.item<double>(), 0.5) << "SGD makes a step for each time that it is listed";

    optimizer.zero_grad();
    const auto before = bits(tensors);
    scaler.scale(loss(communicator.rank() == 1 ? 1e36 : 1)).backward();
    EXPECT_FALSE(scaler.step(optimizer)) << "overflow on one rank, in a tensor of its own";
    EXPECT_EQ(bits(tensors), before);
    EXPECT_EQ(scaler.scale(), 32768);
  });
}

TEST(LossScaler, LossThatIsNoNumberIsAnErrorOnAllRanksWithItsRank) {
  run_all(3, [](Communicator& communicator) {
    DistributedDataParallel model(Chain(1), communicator, small_buckets());
    torch::optim::SGD optimizer(model.parameters(), 0.1);
    LossScaler scaler(model, {});
    const auto before = bits(model.parameters());
    const double factor = communicator.rank() == 2 ? std::numeric_limits<double>::quiet_NaN() : 1;
    scaler.scale(loss_of(model, factor)).backward();
    std::string text;
    try {
      scaler.step(optimizer);
    } catch (const Error& error) {
      text = error.what();
    }
    EXPECT_EQ(text.find("rank 2: its loss is infinite or NaN"), 0u) << text;
    EXPECT_EQ(bits(model.parameters()), before);
    EXPECT_EQ(scaler.scale(), 65536);

    optimizer.zero_grad();
    scaler.scale(loss_of(model, 1e-3)).backward();
    EXPECT_TRUE(scaler.step(optimizer)) << "the program may go on";
  });
}

TEST(LossScaler, GoesOnFromACheckpoint) {
  run_all(2, [](Communicator& communicator) {
    DistributedDataParallel model(Chain(1), communicator, small_buckets());
    torch::optim::SGD optimizer(model.parameters(), 0.1);
    LossScaler scaler(model, {.initial_scale = 8, .growth_interval = 3}), other(model, {});
    for (int step = 0; step < 5; ++step) {
      scaler.scale(loss_of(model, 1e-3)).backward();
      scaler.step(optimizer);
    }
    torch::serialize::OutputArchive saved;
    scaler.save(saved);
    std::stringstream stream;
    saved.save_to(stream);
    torch::serialize::InputArchive loaded;
    loaded.load_from(stream);
    other.load(loaded);
    EXPECT_EQ(other.scale(), 16);
    EXPECT_EQ(other.skipped_steps(), scaler.skipped_steps());
    Checkpoint().add("scaler", other);  // it can be part of one
  });
}

/// What all of three ranks throw where rank 1 has these options.
std::string refusal(const LossScalerOptions& of_rank_1, const DistributedDataParallelOptions& options = {}) {
  return error_of_all(3, [&](Communicator& communicator) {
    DistributedDataParallel model(Chain(1), communicator, options);
    LossScaler(model, communicator.rank() == 1 ? of_rank_1 : LossScalerOptions{});
  });
}

TEST(LossScaler, BadOptionsAreAnErrorOnAllRanks) {
  const std::string says = "LossScaler: rank 1: ";
  EXPECT_EQ(refusal({.initial_scale = 0}).find(says + "initial_scale is 0"), 0u);
  EXPECT_EQ(refusal({.growth_factor = 0.5}).find(says + "growth_factor is 0.5"), 0u);
  EXPECT_EQ(refusal({.growth_interval = 0}).find(says + "growth_interval is 0"), 0u);
  EXPECT_EQ(refusal({.backoff_factor = 1}).find(says + "backoff_factor is 1"), 0u);
  EXPECT_EQ(refusal({.initial_scale = 2}).find("LossScaler: rank 1 has initial_scale 2"), 0u);
}

TEST(LossScaler, ModelsWhoseStepsCannotBeLeftOutAreRefused) {
  DistributedDataParallelOptions in_forward;
  in_forward.overlap_forward = [](const std::vector<at::Tensor>& parameters) {
    return std::make_unique<torch::optim::SGD>(parameters, 0.1);
  };
  EXPECT_NE(refusal({}, in_forward).find("overlap_forward exclude each other"), std::string::npos);
  const std::string text = error_of_all(2, [](Communicator& communicator) {
    DistributedDataParallelOptions options;
    options.hook = make_gradient_hook("post_local_sgd:start_after_steps=1");
    DistributedDataParallel model(Chain(1), communicator, options);
    LossScaler(model, {});
  });
  EXPECT_NE(text.find("ranks' averages differ"), std::string::npos) << text;
}

}  // namespace
}  // namespace kolo::test::precision

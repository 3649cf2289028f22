// OneBitAdam: Adam in the warm-up; after it signs travel, nothing is lost, and all ranks keep the same bits.
#include "methods/one_bit_adam.hpp"

#include <gtest/gtest.h>
#include <torch/serialize.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <sstream>
#include <tuple>

#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"
#include "kolo/train/checkpoint.hpp"
#include "kolo/train/optim.hpp"
#include "train/support/models.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::optim {
namespace {

using methods::OneBitAdam;
using methods::OneBitAdamOptions;
using torch::optim::AdamOptions;
using torch::optim::AdamParamState;
using torch::optim::OptimizerParamGroup;

AdamParamState& state_of(OneBitAdam& optimizer, const at::Tensor& parameter) {
  return static_cast<AdamParamState&>(*kolo::state_of(optimizer, parameter));
}
at::Tensor momentum_of(OneBitAdam& optimizer, const at::Tensor& parameter) {
  return state_of(optimizer, parameter).exp_avg();
}

/// A model with its optimizer, on one rank.
struct Replica {
  explicit Replica(Communicator& communicator, std::uint64_t freeze_after_steps = 4, double rate = 0.01,
                   std::int64_t width = 16, double weight_decay = 1e-3, std::uint64_t bucket_bytes = 1024)
      : rank(communicator.rank()),
        model(Chain(1, width), communicator, small_buckets()),
        optimizer(model, AdamOptions(rate).weight_decay(weight_decay),
                  {.freeze_after_steps = freeze_after_steps, .bucket_bytes = bucket_bytes}) {}

  double backward(int step) {
    optimizer.zero_grad();
    const at::Tensor loss =
        squares(model(numbers(6, 8, step + 100 * rank)), numbers(6, 4, 0.1 * (step % 5) + rank));
    loss.backward();
    return loss.item<double>();
  }
  void train(int first, int last) {
    for (int step = first; step < last; ++step) {
      backward(step);
      optimizer.step();
    }
  }
  std::vector<std::uint8_t> parameter_bits() const { return bits(model.parameters()); }

  int rank;
  DistributedDataParallel<ChainImpl> model;
  OneBitAdam optimizer;
};

class OneBitAdamOver : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
};

TEST_F(OneBitAdamOver, ItsWarmUpIsAdam) {
  run_all(3, [](Communicator& communicator) {
    Replica ours(communicator, 6);
    DistributedDataParallel theirs(Chain(1), communicator, small_buckets());
    torch::optim::Adam adam(theirs.parameters(), AdamOptions(0.01).weight_decay(1e-3));
    for (int step = 0; step < 6; ++step) {
      EXPECT_FALSE(ours.optimizer.is_frozen());
      ours.train(step, step + 1);
      adam.zero_grad();
      squares(theirs(numbers(6, 8, step + 100 * ours.rank)), numbers(6, 4, 0.1 * (step % 5) + ours.rank))
          .backward();
      adam.step();
    }
    EXPECT_TRUE(ours.optimizer.is_frozen());
    EXPECT_EQ(ours.parameter_bits(), bits(theirs.parameters()));
  });
}

TEST_F(OneBitAdamOver, AllRanksHoldTheSameBitsAfterTheFreeze) {
  for (const int ranks : {2, 3}) {
    run_all(ranks, [](Communicator& communicator) {
      Replica replica(communicator);
      for (int step = 0; step < 12; ++step) {
        const auto before = replica.parameter_bits();
        replica.backward(step);
        const bool is_frozen = replica.optimizer.is_frozen();
        const at::Tensor gradient = replica.model.parameters()[0].grad();
        EXPECT_EQ(same_everywhere(communicator, bits({gradient.contiguous()})), !is_frozen) << step;
        replica.optimizer.step();
        EXPECT_NE(replica.parameter_bits(), before);
        EXPECT_TRUE(same_everywhere(communicator, replica.parameter_bits())) << "step " << step;
      }
    });
  }
}

/// The sum over all steps and ranks of their momenta is what was applied and what is still left out.
TEST_F(OneBitAdamOver, LosesNothingOfTheMomenta) {
  run_all(3, [](Communicator& communicator) {
    Replica replica(communicator);
    replica.train(0, 4);
    const auto parameters = replica.model.placed().parameters();
    std::vector<at::Tensor> difference;
    for (const auto& parameter : parameters)
      difference.push_back(at::zeros(parameter.tensor.sizes(), at::kDouble));
    for (int step = 4; step < 12; ++step) {
      replica.backward(step);
      const auto add = [&](double factor, const auto& term) {
        for (std::size_t i = 0; i < parameters.size(); ++i)
          difference[i].add_(term(parameters[i].tensor).detach(), factor);
      };
      const auto momentum = [&](const at::Tensor& parameter) -> at::Tensor {
        return momentum_of(replica.optimizer, parameter);
      };
      add(0.9, momentum);
      add(0.1, [&](const at::Tensor& parameter) -> at::Tensor {
        const at::Tensor gradient = parameter.grad() + 1e-3 * parameter;
        const at::Tensor root = state_of(replica.optimizer, parameter).exp_avg_sq().sqrt();
        return gradient / (at::maximum(root, std::sqrt(0.001) * gradient.abs()) + 1e-8);
      });
      replica.optimizer.step();
      add(-1, momentum);
    }
    const HookState left_out = replica.optimizer.hook().state();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto& values = left_out.at("left out of " + parameters[i].name);
      EXPECT_FALSE(at::allclose(difference[i], at::zeros_like(difference[i]), 0, 1e-4)) << "all was sent";
      difference[i].view(-1).sub_(at::tensor(values).to(at::kDouble));
      communicator.all_reduce(Buffer(difference[i].data_ptr<double>(), values.size(), DType::float64));
      EXPECT_LT(difference[i].abs().max().item<double>(), 1e-5) << parameters[i].name;
    }
  });
}

TEST_F(OneBitAdamOver, EndsNearWhereAdamEnds) {
  double losses[2] = {};
  for (const bool is_compressed : {false, true}) {
    run_all(2, [&](Communicator& communicator) {
      const int steps = 200;
      Replica replica(communicator, is_compressed ? 40 : steps);
      for (int step = 0; step < steps; ++step) {
        for (auto& group : replica.optimizer.param_groups())
          group.options().set_lr(0.01 * (1 + std::cos(3.14159 * step / steps)) / 2);
        replica.train(step % 5, step % 5 + 1);
      }
      double loss = 0;
      for (int step = 0; step < 5; ++step) loss += replica.backward(step) / 5;
      communicator.all_reduce(Buffer(&loss, 1, DType::float64), ReduceOp::average);
      if (replica.rank == 0) losses[is_compressed ? 1 : 0] = loss;
    });
  }
  EXPECT_LT(losses[1], 1.2 * losses[0]) << losses[1];
}

/// A column of the first layer has no input in the warm-up, and the gradient of a bias is rounding alone, as
/// before batch normalization.
TEST_F(OneBitAdamOver, ElementsWithoutGradientsInTheWarmUpAreNotThrownFar) {
  run_all(2, [&](Communicator& communicator) {
    const double rate = 0.01;
    Replica replica(communicator, 8, rate, 16, 0);
    const at::Tensor weight = replica.model->first->weight, bias = replica.model->third->bias;
    const at::Tensor column = weight.select(1, 3), start = column.detach().clone();
    for (int step = 0; step < 40; ++step) {
      const at::Tensor x = numbers(6, 8, step + 100 * replica.rank);
      if (step < 8) x.select(1, 3).zero_();
      const at::Tensor weight_before = weight.detach().clone(), bias_before = bias.detach().clone();
      replica.optimizer.zero_grad();
      const at::Tensor output = replica.model(x) - (1 + 1e-7) * bias;
      squares(output, numbers(6, 4, 0.1 * (step % 5) + replica.rank)).backward();
      replica.optimizer.step();
      EXPECT_LT((weight - weight_before).abs().max().item<double>(), 40 * rate) << step;
      EXPECT_LT((bias - bias_before).abs().max().item<double>(), 40 * rate) << step;
      EXPECT_EQ(at::equal(column, start), step < 8);
    }
    EXPECT_GT((column - start).abs().min().item<double>(), rate) << "it does not learn later";
  });
}

TEST_F(OneBitAdamOver, SendsLessThanATwentyFifthAfterTheFreeze) {
  const auto errors = run_ranks(
      4,
      [](Communicator& communicator) {
        Replica replica(communicator, 1, 0.01, 2100, 0, 1u << 20);
        replica.train(0, 1);
        const std::uint64_t before = communicator.counters().bytes_sent;
        replica.train(1, 4);
        const auto sent = static_cast<double>(communicator.counters().bytes_sent - before) / 3;
        double elements = 0;
        for (const at::Tensor& parameter : replica.model.parameters())
          elements += static_cast<double>(parameter.numel());
        ASSERT_GE(elements, 50'000);
        EXPECT_GT(sent, 0);
        EXPECT_LT(sent, 4 * elements * 2 * 3 / 4 / 25);
      },
      [](Options& options, int) { options.transports = "tcp"; });
  for (const auto& error : errors) EXPECT_EQ(message(error), "");
}

TEST_F(OneBitAdamOver, ASkippedStepChangesNothing) {
  for (const int bad_step : {2, 7}) {
    std::vector<std::uint8_t> expected;
    for (const bool is_bad : {false, true}) {
      run_all(2, [&](Communicator& communicator) {
        Replica replica(communicator);
        for (int step = 0; step < 10; ++step) {
          if (step == bad_step && !is_bad) continue;
          replica.backward(step);
          if (step == bad_step) {
            // In the warm-up the ranks hold averages, alike.
            if (replica.rank == 1 || !replica.optimizer.is_frozen())
              replica.model.parameters()[2].mutable_grad().view(-1)[5] =
                  std::numeric_limits<float>::infinity();
          }
          replica.optimizer.step();
          EXPECT_EQ(replica.optimizer.last_step_counted(), step != bad_step);
        }
        if (replica.rank == 0 && !is_bad) expected = replica.parameter_bits();
        if (!is_bad) return;
        EXPECT_EQ(replica.parameter_bits(), expected) << "rank " << replica.rank;
      });
    }
  }
}

TEST_F(OneBitAdamOver, GoesOnAfterItWasSaved) {
  const std::string path = testing::TempDir() + "kolo-one-bit-adam";
  for (const int saved_after : {2, 4, 7}) {
    std::vector<std::uint8_t> expected;
    run_all(3, [&](Communicator& communicator) {
      Replica straight(communicator);
      std::stringstream own;
      straight.train(0, saved_after);
      torch::save(straight.optimizer, own);
      const auto values = straight.parameter_bits();
      Checkpoint()
          .add("model", straight.model.model())
          .add("optimizer", straight.optimizer)
          .add("left out", straight.optimizer.hook())
          .save(path, 1, communicator);
      straight.train(saved_after, 10);
      const auto end = straight.parameter_bits();

      Replica by_file(communicator);
      by_file.train(0, 5);  // all that it has is written over
      Checkpoint()
          .add("model", by_file.model.model())
          .add("optimizer", by_file.optimizer)
          .add("left out", by_file.optimizer.hook())
          .load(path, communicator);
      EXPECT_EQ(by_file.parameter_bits(), values);
      Replica by_stream(communicator);
      torch::load(by_stream.optimizer, own);
      for (std::size_t i = 0; i < by_stream.model.parameters().size(); ++i) {
        const c10::NoGradGuard no_grad;
        by_stream.model.parameters()[i].copy_(by_file.model.parameters()[i]);
      }
      for (Replica* replica : {&by_file, &by_stream}) {
        EXPECT_EQ(replica->optimizer.is_frozen(), saved_after >= 4);
        replica->train(saved_after, 10);
        EXPECT_EQ(replica->parameter_bits(), end) << saved_after;
      }
    });
  }
  std::filesystem::remove_all(path);
}

TEST_F(OneBitAdamOver, WhatAllRanksShareIsBroadcast) {
  run_all(3, [](Communicator& communicator) {
    Replica source(communicator), target(communicator);
    source.train(0, 7);
    std::stringstream file;
    torch::save(source.optimizer, file);
    if (communicator.rank() == 1) torch::load(target.optimizer, file);
    broadcast(target.optimizer, communicator, 1);
    broadcast(source.model.model(), communicator);
    const auto parameters = target.model.parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      EXPECT_TRUE(at::equal(momentum_of(target.optimizer, parameters[i]),
                            momentum_of(source.optimizer, source.model.parameters()[i])));
    }
    EXPECT_EQ(target.optimizer.hook().state().empty(), communicator.rank() != 1) << "it is rank 1's";
    EXPECT_TRUE(target.optimizer.is_frozen());
    target.train(7, 9);
    EXPECT_TRUE(same_everywhere(communicator, target.parameter_bits()));
  });
}

TEST_F(OneBitAdamOver, GoesOnFromAdam) {
  run_all(2, [](Communicator& communicator) {
    DistributedDataParallel model(Chain(1), communicator, small_buckets());
    std::stringstream file;
    {
      torch::optim::Adam adam(model.parameters(), AdamOptions(0.01).weight_decay(1e-3));
      for (int step = 0; step < 4; ++step) {
        adam.zero_grad();
        squares(model(numbers(6, 8, step + 100 * communicator.rank())),
                numbers(6, 4, 0.1 * (step % 5) + communicator.rank()))
            .backward();
        adam.step();
      }
      torch::save(adam, file);
    }
    Replica straight(communicator), loaded(communicator);
    straight.train(0, 8);
    torch::load(loaded.optimizer, file);
    EXPECT_TRUE(loaded.optimizer.is_frozen());
    for (std::size_t i = 0; i < model.parameters().size(); ++i) {
      const c10::NoGradGuard no_grad;
      loaded.model.parameters()[i].copy_(model.parameters()[i]);
    }
    loaded.train(4, 8);
    EXPECT_EQ(loaded.parameter_bits(), straight.parameter_bits());
  });
}

}  // namespace
}  // namespace kolo::test::optim

// ShardedDataParallel makes the steps of DistributedDataParallel, whatever it divides.
#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include <functional>
#include <memory>
#include <vector>

#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/optim.hpp"
#include "kolo/train/recompute.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "train/sharded/tower.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::sharded {
namespace {

constexpr int kSteps = 20;

using Parameters = std::vector<at::Tensor>;
using Optimizer = std::unique_ptr<torch::optim::Optimizer>;
using MakeOptimizer = std::function<Optimizer(const Parameters&, const SumOverRanks&)>;

template <typename Options, typename Type>
MakeOptimizer make(Options options) {
  return [options](const Parameters& parameters, const SumOverRanks&) -> Optimizer {
    return std::make_unique<Type>(parameters, options);
  };
}
template <typename Options, typename Type>
MakeOptimizer make_with_norms(Options options) {
  return [options](const Parameters& parameters, const SumOverRanks& sum) -> Optimizer {
    return std::make_unique<Type>(parameters, options, sum);
  };
}

at::Tensor input(int step, int rank) {
  return numbers(3, 7, 100 * step + rank).to(at::kDouble);
}
at::Tensor target(int rank) {
  return numbers(3, 7, 500 + rank).to(at::kDouble);
}

Parameters copies_of(const Parameters& parameters) {
  Parameters result;
  for (const at::Tensor& parameter : parameters) result.push_back(parameter.detach().clone());
  return result;
}

struct Setting {
  MakeOptimizer optimizer;
  double max_norm = 0;  ///< 0: not clipped
  int backwards = 1;    ///< a step
};

/// The parameters after some steps, and the last loss.
template <typename Model>
std::pair<Parameters, double> train(Model& model, const Parameters& parameters, const Setting& setting,
                                    int rank, const SumOverRanks& sum,
                                    const std::function<double(double)>& clip,
                                    const std::function<Parameters()>& whole) {
  const Optimizer optimizer = setting.optimizer(parameters, sum);
  double last = 0;
  for (int step = 0; step < kSteps; ++step) {
    optimizer->zero_grad();
    for (int i = 0; i < setting.backwards; ++i) {
      const at::Tensor loss = squares(model(input(step + 1000 * i, rank)), target(rank));
      loss.backward();
      last = loss.item().toDouble();
    }
    if (setting.max_norm > 0) clip(setting.max_norm);
    optimizer->step();
  }
  return {whole(), last};
}

std::pair<Parameters, double> train_plain(Communicator& communicator, const Setting& setting) {
  DistributedDataParallel model(Tower(1), communicator, small_buckets());
  const Parameters parameters = model.parameters();
  return train(
      model, parameters, setting, communicator.rank(), {},
      [&](double norm) { return clip_gradients(parameters, norm); }, [&] { return copies_of(parameters); });
}

std::pair<Parameters, double> train_sharded(Communicator& communicator, const Setting& setting, Shard shard) {
  ShardedDataParallel model(Tower(1.0 + communicator.rank()), communicator, {.shard = shard});
  return train(
      model, model.parameters(), setting, communicator.rank(), sum_over_ranks(model.placed()),
      [&](double norm) { return clip_gradients(model.placed(), norm); },
      [&] {
        const auto whole = model.whole();
        return copies_of(unique_parameters(model.model()));
      });
}

void expect_equal(const Setting& setting, const std::vector<int>& rank_counts) {
  for (const int ranks : rank_counts) {
    run_all(ranks, [&](Communicator& communicator) {
      at::set_num_threads(1);
      const auto [plain, loss] = train_plain(communicator, setting);
      for (const Shard shard : kShards) {
        const auto [sharded, other] = train_sharded(communicator, setting, shard);
        ASSERT_EQ(sharded.size(), plain.size());
        EXPECT_NEAR(loss, other, 1e-10);
        for (std::size_t i = 0; i < plain.size(); ++i) {
          const double error = (plain[i] - sharded[i]).abs().max().item().toDouble();
          EXPECT_LT(error, 1e-10) << ranks << " ranks, shard " << static_cast<int>(shard) << ", parameter "
                                  << i;
        }
      }
    });
  }
}

TEST(Sharded, AdamMakesTheStepsOfTheWholeModel) {
  expect_equal({make<torch::optim::AdamOptions, torch::optim::Adam>(
                   torch::optim::AdamOptions(0.01).weight_decay(0.01))},
               {1, 4});
}

TEST(Sharded, MomentumMakesThemToo) {
  expect_equal(
      {make<torch::optim::SGDOptions, torch::optim::SGD>(torch::optim::SGDOptions(0.05).momentum(0.9))}, {3});
}

TEST(Sharded, SeveralBackwardsAddUp) {
  expect_equal(
      {.optimizer = make<torch::optim::SGDOptions, torch::optim::SGD>(torch::optim::SGDOptions(0.05)),
       .backwards = 3},
      {3});
}

TEST(Sharded, OneNormIsClipped) {
  expect_equal(
      {.optimizer = make<torch::optim::AdamOptions, torch::optim::Adam>(torch::optim::AdamOptions(0.01)),
       .max_norm = 0.05},
      {3});
}

TEST(Sharded, LayersKeepTheirNorms) {
  expect_equal({make_with_norms<LARSOptions, LARS>(
                   LARSOptions(1).momentum(0.9).weight_decay(0.01).trust_coefficient(0.02))},
               {3});
  expect_equal({make_with_norms<LAMBOptions, LAMB>(LAMBOptions(0.02).weight_decay(0.1))}, {4});
}

}  // namespace
}  // namespace kolo::test::sharded

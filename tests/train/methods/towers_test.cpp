// A network in towers equals grouped and whole convolutions on one process.
#include <gtest/gtest.h>

#include "kolo/error.hpp"
#include "kolo/train/group_functions.hpp"
#include "kolo/train/parallel_layers.hpp"
#include "methods/tower_conv2d.hpp"
#include "train/support/ranks.hpp"
#include "train/tensor/training.hpp"

namespace kolo::test::tensor {
namespace {

using methods::TowerConv2d;
using methods::TowerConv2dOptions;
using methods::TowerInput;

constexpr std::int64_t kMaps = 12;

/// Four layers: the first sees the images, the second its own tower, the third all, and a linear one all.
Built towers_of(Communicator& group) {
  const auto generator = seeded(9);
  auto all = std::make_shared<torch::nn::Module>("towers");
  const auto layer = [&](const std::string& name, std::int64_t channels, TowerInput input) {
    return all->register_module(name, TowerConv2d(TowerConv2dOptions{.in_channels = channels,
                                                                     .out_channels = kMaps,
                                                                     .kernel_size = 3,
                                                                     .padding = 1,
                                                                     .input = input,
                                                                     .generator = generator},
                                                  group));
  };
  const auto first = layer("first", 3, TowerInput::replicated);
  const auto second = layer("second", kMaps, TowerInput::own_tower);
  const auto third = layer("third", kMaps, TowerInput::all_towers);
  const auto last = all->register_module(
      "last", ColumnParallelLinear(
                  ColumnParallelLinearOptions{
                      .in_features = kMaps, .out_features = 5, .gather_output = true, .generator = generator},
                  group));
  return {all, [=](const at::Tensor& x) mutable {
            const at::Tensor maps =
                at::relu(third->forward(at::relu(second->forward(at::tanh(first->forward(x))))));
            return last->forward(gather_from_group(maps.mean({2, 3}), 1, group));
          }};
}

TEST(Towers, EqualGroupedAndWholeConvolutions) {
  for (const int ranks : {2, 3, 4}) {
    const auto plain = [ranks](const Whole& p, const at::Tensor& x) {
      const auto convolve = [&](const std::string& name, const at::Tensor& maps, std::int64_t groups) {
        return at::conv2d(maps, p.at(name + ".weight"), p.at(name + ".bias"), 1, 1, 1, groups);
      };
      const at::Tensor first = at::tanh(convolve("first", x, 1));
      const at::Tensor maps = at::relu(convolve("third", at::relu(convolve("second", first, ranks)), 1));
      return at::linear(maps.mean({2, 3}), p.at("last.weight"), p.at("last.bias"));
    };
    expect_as_one_process(
        {.build = towers_of, .plain = plain, .input = waves({2, 3, 5, 4}, 1), .ranks = {ranks}});
  }
}

TEST(Towers, ALayerThatSeesItsOwnTowerSendsNothing) {
  run_all(2, [](Communicator& group) {
    TowerConv2d own(TowerConv2dOptions{.in_channels = 4, .out_channels = 4, .generator = seeded(1)}, group);
    const auto before = group.counters().operations;
    own(at::ones({1, 2, 3, 3}).set_requires_grad(true)).sum().backward();
    EXPECT_EQ(group.counters().operations, before);
  });
}

TEST(Towers, ThatDoNotDivideAreRefused) {
  run_all(4, [](Communicator& group) {
    const auto refuse = [&](const std::string& said, std::int64_t in, std::int64_t out) {
      expect_refusal(group, said, [&](Communicator& all) {
        TowerConv2d(TowerConv2dOptions{.in_channels = in, .out_channels = out, .generator = seeded(1)}, all);
      });
    };
    refuse("6 out_channels cannot be divided by 4 towers", 4, 6);
    refuse("3 in_channels cannot be divided by 4 towers", 3, 4);
    TowerConv2d tower(TowerConv2dOptions{.in_channels = 4, .out_channels = 4, .generator = seeded(1)}, group);
    EXPECT_THROW(tower(at::ones({1, 4, 3, 3})), InvalidArgumentError);
  });
}

}  // namespace
}  // namespace kolo::test::tensor

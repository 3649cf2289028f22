// Linear layers by columns and rows equal whole ones.
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include "kolo/train/parallel_layers.hpp"
#include "train/support/ranks.hpp"
#include "train/tensor/training.hpp"

namespace kolo::test::tensor {
namespace {

at::Tensor whole_mlp(const Whole& p, const at::Tensor& x, const std::string& prefix = "") {
  const at::Tensor hidden = at::linear(x, p.at(prefix + "up.weight"), p.at(prefix + "up.bias"));
  return at::linear(at::gelu(hidden), p.at(prefix + "down.weight"), p.at(prefix + "down.bias"));
}

TEST(ParallelLinear, ColumnsAndThenRowsEqualWholeLayers) {
  for (const std::int64_t hidden : {12, 10}) {  // 10: slices that differ
    expect_as_one_process(
        {.build = [hidden](Communicator& group) -> Built {
           const auto generator = seeded(3);
           ParallelMLP mlp(ParallelMLPOptions{.width = 6, .hidden = hidden, .generator = generator}, group);
           return {mlp.ptr(), [mlp](const at::Tensor& x) mutable { return mlp(x); }};
         },
         .plain = [](const Whole& p, const at::Tensor& x) { return whole_mlp(p, x); },
         .input = waves({5, 6}, 1),
         .ranks = hidden == 12 ? std::vector<int>{1, 2} : std::vector<int>{3, 4}});
  }
}

TEST(ParallelLinear, GatheredColumnsAndSplitRowsTakeAndGiveReplicatedTensors) {
  expect_as_one_process(
      {.build = [](Communicator& group) -> Built {
         const auto generator = seeded(4);
         auto both = std::make_shared<torch::nn::Module>("both");
         const auto first = both->register_module(
             "first",
             ColumnParallelLinear(
                 ColumnParallelLinearOptions{
                     .in_features = 5, .out_features = 7, .gather_output = true, .generator = generator},
                 group));
         const auto second = both->register_module(
             "second", RowParallelLinear(RowParallelLinearOptions{.in_features = 7,
                                                                  .out_features = 3,
                                                                  .bias = false,
                                                                  .input_is_slice = false,
                                                                  .generator = generator},
                                         group));
         return {both, [first, second](const at::Tensor& x) mutable {
                   return second->forward(at::tanh(first->forward(x)));
                 }};
       },
       .plain =
           [](const Whole& p, const at::Tensor& x) {
             const at::Tensor hidden = at::tanh(at::linear(x, p.at("first.weight"), p.at("first.bias")));
             return at::linear(hidden, p.at("second.weight"));
           },
       .input = waves({2, 3, 5}, 1),
       .ranks = {1, 3}});
}

TEST(ParallelLinear, InitialValuesAreThoseOfOneLinearLayer) {
  torch::manual_seed(5);
  const torch::nn::Linear linear(6, 8);
  run_all(4, [&](Communicator& group) {
    const auto generator = seeded(5);
    ColumnParallelLinear columns(
        ColumnParallelLinearOptions{.in_features = 6, .out_features = 8, .generator = generator}, group);
    EXPECT_TRUE(at::allclose(columns->weight, linear->weight.narrow(0, 2 * group.rank(), 2)));
    EXPECT_TRUE(at::allclose(columns->bias, linear->bias.narrow(0, 2 * group.rank(), 2)));
    const auto again = seeded(5);
    RowParallelLinear rows(RowParallelLinearOptions{.in_features = 6, .out_features = 8, .generator = again},
                           group);
    const Slice own = slice_of(6, group.rank(), 4);
    EXPECT_TRUE(at::allclose(rows->weight, linear->weight.narrow(1, own.begin, own.length)));
    EXPECT_TRUE(at::allclose(rows->bias, linear->bias));
  });
}

}  // namespace
}  // namespace kolo::test::tensor

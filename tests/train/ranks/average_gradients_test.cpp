// average_gradients(): gradients that no wrapper averages.
#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <string>

#include "kolo/train/averages.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "train/support/models.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::ranks {
namespace {

TEST(AverageGradients, CountsAMissingOneAsZero) {
  run_all(3, [](Communicator& communicator) {
    const int rank = communicator.rank();
    at::Tensor transposed = at::zeros({4, 2}).set_requires_grad(true);
    transposed.mutable_grad() = numbers(2, 4, rank).t();
    at::Tensor sometimes = at::zeros({5}, at::kDouble).set_requires_grad(true);
    if (rank == 1) sometimes.mutable_grad() = at::full({5}, 6, at::kDouble);
    average_gradients({transposed, sometimes}, communicator);
    const at::Tensor mean = (numbers(2, 4, 0) + numbers(2, 4, 1) + numbers(2, 4, 2)).t() / 3;
    EXPECT_TRUE(at::allclose(transposed.grad(), mean, 1e-6, 1e-6));
    EXPECT_TRUE(at::equal(sometimes.grad(), at::full({5}, 2, at::kDouble)));
  });
}

TEST(AverageGradients, RefusesWhatCannotBeAveraged) {
  run_all(1, [](Communicator& communicator) {
    at::Tensor flags = at::zeros({2});
    flags.mutable_grad() = at::sparse_coo_tensor(at::zeros({1, 1}, at::kLong), at::ones({1}), {2});
    EXPECT_THROW(average_gradients({flags}, communicator), InvalidArgumentError);
  });
}

TEST(AverageGradients, RefusesParametersInShards) {
  run_all(2, [](Communicator& communicator) {
    const torch::nn::Linear layer(4, 4);
    const ShardedDataParallel<torch::nn::LinearImpl> shards(layer, communicator);
    try {
      average_gradients(layer->parameters(), communicator);
      ADD_FAILURE() << "zeros were averaged";
    } catch (const InvalidArgumentError& error) {
      EXPECT_NE(
          std::string(error.what()).find("in shards of a ShardedDataParallel, which averages by itself"),
          std::string::npos)
          << error.what();
    }
  });
}

TEST(AverageGradients, RefusesOtherShardsOfOtherRanks) {
  const std::string said = error_of_all(2, [](Communicator& communicator) {
    const ShardedDataParallel<torch::nn::LinearImpl> shards(torch::nn::Linear(4, 4), communicator);
    average_gradients(shards.parameters(), communicator);
  });
  EXPECT_NE(said.find("for part 0 of 2 of a ShardedDataParallel"), std::string::npos) << said;
}

}  // namespace
}  // namespace kolo::test::ranks

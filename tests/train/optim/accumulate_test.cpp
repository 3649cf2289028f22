// Gradient accumulation: equals one large batch, averages once, and refuses parts that are not equal.
#include "kolo/train/parallel_model.hpp"

#include <gtest/gtest.h>

#include "kolo/error.hpp"
#include "train/support/models.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::optim {
namespace {

TEST(Accumulate, EqualsOneLargeBatch) {
  at::set_num_threads(1);
  std::vector<at::Tensor> trained[2];
  double losses[2] = {};
  for (const int parts : {1, 4}) {
    run_all(2, [&](Communicator& communicator) {
      Chain net(1);
      net->to(at::kDouble);
      DistributedDataParallel model(net, communicator, small_buckets());
      torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
      at::Tensor loss;
      for (int step = 0; step < 20; ++step) {
        const auto share = [&](const at::Tensor& all) {
          return all.slice(0, communicator.rank() * 8, (communicator.rank() + 1) * 8).to(at::kDouble);
        };
        optimizer.zero_grad();
        loss = accumulate(model, {share(numbers(16, 8, step)), share(numbers(16, 4, 5))}, parts,
                          [&](const Batch& part) { return squares(model(part[0]), part[1]); });
        EXPECT_EQ(model.total().steps, static_cast<std::uint64_t>(step) + 1)
            << "the ranks average once a step";
        optimizer.step();
      }
      if (communicator.rank() != 0) return;
      trained[parts == 1 ? 0 : 1] = model.parameters();
      losses[parts == 1 ? 0 : 1] = loss.item<double>();
    });
  }
  EXPECT_NEAR(losses[0], losses[1], 1e-10);
  for (std::size_t i = 0; i < trained[0].size(); ++i)
    EXPECT_TRUE(at::allclose(trained[0][i], trained[1][i], 1e-10, 1e-10)) << "parameter " << i;
}

TEST(Accumulate, RefusesUnequalParts) {
  EXPECT_EQ(samples_per_part(8192, 4, 8), 256);
  EXPECT_THROW(samples_per_part(256, 3, 1), InvalidArgumentError);
  EXPECT_THROW(samples_per_part(0, 1, 1), InvalidArgumentError);
  try {
    samples_per_part(256, 4, 3);
    ADD_FAILURE();
  } catch (const InvalidArgumentError& error) {
    EXPECT_STREQ(error.what(),
                 "a batch of 256 cannot be shared by 4 ranks and accumulated in 3 equal parts [K709]");
  }
  run_all(1, [&](Communicator& communicator) {
    DistributedDataParallel model(Chain(1), communicator, small_buckets());
    int calls = 0;
    const auto count = [&](const Batch&) {
      ++calls;
      return at::Tensor();
    };
    const at::Tensor ten = at::zeros({10, 8}), nine = at::zeros({9, 8});
    EXPECT_THROW(accumulate(model, {ten}, 3, count), InvalidArgumentError);
    EXPECT_THROW(accumulate(model, {ten}, 0, count), InvalidArgumentError);
    EXPECT_THROW(accumulate(model, {ten, nine}, 1, count), InvalidArgumentError);
    EXPECT_THROW(accumulate(model, {}, 1, count), InvalidArgumentError);
    EXPECT_THROW(accumulate(model, {at::zeros({})}, 1, count), InvalidArgumentError);
    EXPECT_EQ(calls, 0) << "nothing is computed before";
    EXPECT_THROW(accumulate(model, {ten}, 2, [&](const Batch& part) { return model(part[0]); }),
                 InvalidArgumentError);
  });
}

}  // namespace
}  // namespace kolo::test::optim

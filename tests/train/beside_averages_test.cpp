// What goes on beside the averaging of gradients: buffers, calls of the caller's own, proofs that ranks
// agree.
#include "models.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "ranks.hpp"

namespace kolo::test {
namespace {

class BesideAverages : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
};

/// As synchronized normalization does, and in another place of backward on each rank.
TEST_F(BesideAverages, CallsOfTheCallersOwnMayComeInBackward) {
  run_all(2, [](Communicator& communicator) {
    DistributedDataParallel model(Chain(0), communicator, small_buckets());
    std::vector<float> ranks;
    (communicator.rank() == 0 ? model->third : model->first)->weight.register_hook([&](at::Tensor gradient) {
      ranks.assign(1, static_cast<float>(communicator.rank()));
      communicator.all_reduce(ranks);
      return gradient;
    });
    for (int step = 0; step < 3; ++step) {
      model(numbers(6, 8, communicator.rank())).sum().backward();
      EXPECT_EQ(ranks, std::vector<float>{1});
      EXPECT_TRUE(same_everywhere(model.communicator(), bits({model->first->weight.grad()})));
    }
  });
}

TEST_F(BesideAverages, ACommunicatorOfItsOwnIsGivenBack) {
  run_all(2, [](Communicator& communicator) {
    const Chain chain(0);
    for (int i = 0; i < 70; ++i) {
      DistributedDataParallel model(chain, communicator, small_buckets());
      if (i == 69) model(numbers(6, 8, communicator.rank())).sum().backward();
    }
    EXPECT_TRUE(same_everywhere(communicator, bits({chain->first->weight.grad()})));
  });
}

}  // namespace
}  // namespace kolo::test

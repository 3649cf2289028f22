// What goes on beside the averaging of gradients: buffers, calls of the caller's own, proofs that ranks
// agree.
#include "train/support/models.hpp"

#include <gtest/gtest.h>

#include <string>

#include "kolo/error.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::ddp {
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

TEST_F(BesideAverages, ForwardDoesNotCommunicate) {
  run_all(2, [](Communicator& communicator) {
    DistributedDataParallel model(WithBuffers(), communicator);
    for (int step = 0; step < 2; ++step) {
      communicator.barrier();
      const std::uint64_t before = communicator.counters().operations;
      at::Tensor sum = model(numbers(6, 4, communicator.rank())).sum();
      if (communicator.rank() == 1) sum = sum + model(numbers(6, 4, 9)).sum();  // as often as it likes
      EXPECT_EQ(communicator.counters().operations, before);
      sum.backward();
      EXPECT_TRUE(same_everywhere(communicator, bits(model->buffers())));
    }
  });
}

TEST_F(BesideAverages, BuffersFollowRankZeroWhateverRanksAreInTraining) {
  for (const int evaluating : {0, 1}) {
    run_all(2, [&](Communicator& communicator) {
      DistributedDataParallel model(WithBuffers(), communicator);
      if (communicator.rank() == evaluating) model->eval();
      for (int step = 0; step < 2; ++step) {
        model(numbers(6, 4, 5.0 * communicator.rank() + step)).sum().backward();
        EXPECT_TRUE(same_everywhere(communicator, bits(model->buffers())));
        EXPECT_EQ(model->norm->num_batches_tracked.item().toLong(), evaluating == 0 ? 0 : step + 1);
      }
    });
  }
}

TEST_F(BesideAverages, BuffersStayWhereTheyShould) {
  run_all(2, [](Communicator& communicator) {
    DistributedDataParallelOptions options;
    options.broadcast_buffers = false;
    DistributedDataParallel apart(WithBuffers(), communicator, options);
    apart(numbers(6, 4, communicator.rank())).sum().backward();
    EXPECT_FALSE(same_everywhere(communicator, bits({apart->norm->running_mean})));

    DistributedDataParallel model(WithBuffers(), communicator);
    {
      const auto guard = model.no_sync();
      model(numbers(6, 4, communicator.rank())).sum().backward();
    }
    EXPECT_FALSE(same_everywhere(communicator, bits({model->norm->running_mean})));
  });
}

TEST_F(BesideAverages, ABufferThatWasCastIsRefusedByName) {
  run_all(2, [](Communicator& communicator) {
    DistributedDataParallel model(WithBuffers(), communicator);
    at::Tensor& mean = model->norm->running_mean;
    mean.set_data(mean.to(at::kDouble));
    try {
      model(numbers(6, 4, 1));
      ADD_FAILURE() << "the cast went unseen";
    } catch (const InvalidArgumentError& error) {
      EXPECT_NE(std::string(error.what()).find("'norm.running_mean' Double [4] was Float [4]"),
                std::string::npos)
          << error.what();
    }
  });
}

/// Changes a parameter on one rank of three, and tells in which step that was found.
int step_of_discovery(std::uint64_t every, int changed_in) {
  auto options = small_buckets();
  options.check_parameters_every = every;
  int found = 0;
  const auto errors = run_ranks(3, [&](Communicator& communicator) {
    DistributedDataParallel model(Chain(0), communicator, options);
    for (int step = 1; step <= 5; ++step) {
      if (communicator.rank() == 2 && step == changed_in) {
        const c10::NoGradGuard no_grad;
        model->second->weight.add_(1);
        model->third->bias.add_(1);
      }
      if (communicator.rank() == 0) found = step;
      model(numbers(6, 8, communicator.rank())).sum().backward();
    }
    if (communicator.rank() == 0) found = 0;
  });
  for (const auto& error : errors) {
    if (found == 0) {
      EXPECT_EQ(message(error), "");
      continue;
    }
    EXPECT_THROW(std::rethrow_exception(error), MismatchError);
    EXPECT_NE(message(error).find("rank 2 has other values of 'second.weight' than rank 0 in step " +
                                  std::to_string(found)),
              std::string::npos)
        << message(error);
  }
  return found;
}

TEST_F(BesideAverages, ParametersThatDifferAreFoundWhereOneAsks) {
  EXPECT_EQ(step_of_discovery(0, 1), 0);
  EXPECT_EQ(step_of_discovery(1, 1), 1);
  EXPECT_EQ(step_of_discovery(1, 3), 3);
  EXPECT_EQ(step_of_discovery(3, 2), 4);
  EXPECT_EQ(step_of_discovery(3, 5), 0);
}

/// The number of threads is a thread's own, once it has looked at it.
void use_threads(int threads) {
  at::get_num_threads();
  at::set_num_threads(threads);
}

TEST_F(BesideAverages, MachinesThatDifferAreTold) {
  const auto body = [](bool require_equal) {
    return run_ranks(3, [require_equal](Communicator& communicator) {
      use_threads(communicator.rank() == 1 ? 2 : 1);
      DistributedDataParallelOptions options;
      options.require_equal_machines = require_equal;
      const DistributedDataParallel model(Chain(0), communicator, options);
    });
  };
  const std::string difference =
      "the ranks' machines differ: rank 1 has 2 threads where rank 0 has 1 thread [K701]";
  for (const auto& error : body(true)) {
    EXPECT_THROW(std::rethrow_exception(error), MismatchError);
    EXPECT_NE(message(error).find(difference), std::string::npos) << message(error);
  }
  testing::internal::CaptureStderr();
  const auto errors = body(false);
  const std::string warning = testing::internal::GetCapturedStderr();
  EXPECT_NE(warning.find(difference), std::string::npos) << warning;
  for (const auto& error : errors) EXPECT_EQ(message(error), "");
}

}  // namespace
}  // namespace kolo::test::ddp

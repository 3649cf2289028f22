// Averages of what is no gradient: metrics and parameters.
#include "train/support/models.hpp"

#include "kolo/train/averages.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kolo/error.hpp"
#include "kolo/train/hooks.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::ranks {
namespace {

TEST(Averages, OfMetricsCountByWeight) {
  run_all(3, [](Communicator& communicator) {
    const double rank = communicator.rank();
    const Metrics plain = average({{"loss", rank}, {"accuracy", 10 * rank}}, communicator);
    EXPECT_EQ(plain, (Metrics{{"loss", 1}, {"accuracy", 10}}));
    // What a rank without samples says is nothing.
    const double nothing = std::numeric_limits<double>::quiet_NaN();
    const Metrics weighed = average({{"loss", rank == 1 ? nothing : rank}}, communicator,
                                    2 * std::fabs(rank - 1) + rank * (rank - 1));
    EXPECT_EQ(weighed.at("loss"), 2 * 4.0 / 6);
    EXPECT_TRUE(std::isnan(average({{"loss", rank == 1 ? nothing : rank}}, communicator).at("loss")));
    EXPECT_TRUE(average({}, communicator).empty());
  });
}

TEST(Averages, OfMetricsThatDifferAreRefused) {
  const std::string names = error_of_all(3, [](Communicator& communicator) {
    average({{communicator.rank() == 1 ? "los" : "loss", 1}}, communicator);
  });
  EXPECT_NE(names.find("rank 1 has 'los' where rank 0 has 'loss'"), std::string::npos) << names;
  const std::string weight = error_of_all(2, [](Communicator& communicator) {
    average({{"loss", 1}}, communicator, communicator.rank() - 1);
  });
  EXPECT_NE(weight.find("rank 0 has a weight of -1"), std::string::npos) << weight;
  const std::string none = error_of_all(2, [](Communicator& communicator) {
    average({{"loss", 1}}, communicator, 0);
  });
  EXPECT_NE(none.find("the weight is 0 on all ranks"), std::string::npos) << none;
}

TEST(Averages, OfParametersTakeTheirPlace) {
  run_all(2, [](Communicator& communicator) {
    Chain chain(communicator.rank() * 3);
    {  // one that does not lie in one piece
      const c10::NoGradGuard no_grad;
      chain->second->weight.set_data(chain->second->weight.t().clone().t());
    }
    Chain zero(0), three(3);
    average_parameters(*chain, communicator);
    for (std::size_t i = 0; i < chain->parameters().size(); ++i) {
      const at::Tensor mean = (zero->parameters()[i] + three->parameters()[i]) / 2;
      EXPECT_TRUE(at::allclose(chain->parameters()[i], mean, 1e-6, 1e-7)) << i;
    }
    EXPECT_TRUE(same_everywhere(communicator, bits(chain->parameters())));
    EXPECT_TRUE(chain->first->weight.requires_grad());
  });
}

TEST(Averages, ModelsThatDifferAreNamed) {
  const std::string text = error_of_all(2, [](Communicator& communicator) {
    const Chain chain(0, communicator.rank() == 1 ? 17 : 16);
    average_parameters(*chain, communicator);
  });
  EXPECT_NE(text.find("rank 1 has 'first.weight' Float [17, 8] where rank 0 has"), std::string::npos) << text;
}

TEST(Averages, PutLocallyTrainedModelsTogether) {
  run_all(4, [](Communicator& communicator) {
    auto options = small_buckets();
    options.hook = make_gradient_hook("post_local_sgd:start_after_steps=2:ranks_per_group=2");
    DistributedDataParallel model(Chain(0), communicator, options);
    torch::optim::SGD optimizer(model.parameters(), 0.1);
    const auto step = [&](double seed) {
      optimizer.zero_grad();
      squares(model(numbers(6, 8, seed + communicator.rank())), numbers(6, 4, 9)).backward();
      optimizer.step();
    };
    for (int i = 0; i < 2; ++i) step(i);
    EXPECT_TRUE(same_everywhere(communicator, bits(model.parameters())));
    step(2);
    EXPECT_FALSE(same_everywhere(communicator, bits(model.parameters())));
    Communicator group = communicator.split(communicator.rank() / 2);
    EXPECT_TRUE(same_everywhere(group, bits(model.parameters())));
    average_parameters(model.model(), communicator);
    EXPECT_TRUE(same_everywhere(communicator, bits(model.parameters())));
  });
}

TEST(Averages, WhatExpectsEqualRanksIsRefused) {
  const std::string checked = error_of_all(2, [](Communicator& communicator) {
    auto options = small_buckets();
    options.hook = make_gradient_hook("post_local_sgd");
    options.check_parameters_every = 1;
    const DistributedDataParallel model(Chain(0), communicator, options);
  });
  EXPECT_NE(checked.find("check_parameters_every does not go with the hook post_local_sgd"),
            std::string::npos)
      << checked;
  const std::string joined = error_of_all(2, [](Communicator& communicator) {
    auto options = small_buckets();
    options.hook = make_gradient_hook("post_local_sgd");
    DistributedDataParallel model(Chain(0), communicator, options);
    const auto join = model.join(JoinMode::divide_by_all);
  });
  EXPECT_NE(joined.find("join() does not go with the hook post_local_sgd"), std::string::npos) << joined;
}

}  // namespace
}  // namespace kolo::test::ranks

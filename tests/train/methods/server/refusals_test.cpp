// What cannot be is an error on all ranks before training begins, which names the odd one.
#include <gtest/gtest.h>
#include <torch/nn/modules/embedding.h>

#include "kolo/error.hpp"
#include "kolo/train/optim.hpp"
#include "train/methods/server/job.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::server {
namespace {

using Adjust = std::function<void(int rank, ParameterServerOptions&)>;

/// One rank is a server, three are workers, unless their options say otherwise. Returns what rank 0 threw,
/// and requires that all threw the same.
std::string refused(const Adjust& adjust,
                    const ParameterServerSettings& settings = {.make_optimizer = sgd(0.1)},
                    const std::function<std::shared_ptr<torch::nn::Module>(int rank)>& make_model = {}) {
  const auto errors = run_job(4, [&](const std::shared_ptr<Store>& store, int rank) {
    ParameterServerOptions options{.timeout = std::chrono::seconds(5)};
    if (adjust) adjust(rank, options);
    const auto model = make_model ? make_model(rank) : std::make_shared<ChainImpl>(1);
    if (rank < options.servers) {
      ParameterServer server(store, rank, 4, *model, options, settings);
    } else {
      ParameterServerClient client(store, rank, 4, *model, options);
    }
  });
  for (const auto& error : errors) EXPECT_EQ(message(error), message(errors[0]));
  return message(errors[0]);
}

void expect_in(const std::string& part, const std::string& text) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(ServerRefusals, OptionsThatCannotBe) {
  const auto with = [](auto set) {
    return refused([&](int, ParameterServerOptions& options) { set(options); });
  };
  expect_in("rank 0: a staleness of -1", with([](auto& options) {
              options.rule = ServerRule::clocks;
              options.staleness = -1;
            }));
  expect_in("rank 0: 0 servers: there is no server", with([](auto& options) { options.servers = 0; }));
  expect_in("rank 0: 4 servers among 4 ranks: there is no worker",
            with([](auto& options) { options.servers = 4; }));
  expect_in("the rule unbounded, which has no bound", with([](auto& options) {
              options.rule = ServerRule::unbounded;
              options.staleness = 2;
            }));
  expect_in("late pushes are divided, and the rule clocks has none", with([](auto& options) {
              options.rule = ServerRule::clocks;
              options.late = LatePush::divide;
            }));
}

TEST(ServerRefusals, TheOddRankIsNamed) {
  const auto odd = [](int which, auto set) {
    return refused([=](int rank, ParameterServerOptions& options) {
      if (rank == which) set(options);
    });
  };
  expect_in("rank 2 has the rule clocks where rank 0 has the rule synchronous",
            odd(2, [](auto& options) { options.rule = ServerRule::clocks; }));
  expect_in("rank 3: a staleness of -5: it is 0 or more",
            odd(3, [](auto& options) { options.staleness = -5; }));
  expect_in("rank 0 has 3 servers where rank 1 has 1 servers",
            odd(0, [](auto& options) { options.servers = 3; }));
  expect_in("rank 1: the data folder is empty",
            odd(1, [](auto& options) { options.problem = "the data folder is empty"; }));
  const std::string model = refused({}, {.make_optimizer = sgd(0.1)}, [](int rank) {
    return std::make_shared<ChainImpl>(1, rank == 2 ? 17 : 16);
  });
  expect_in("rank 2 has parameter 'first.weight' of shape [17, 8]", model);
}

TEST(ServerRefusals, OptimizersThatNeedMoreThanAnElement) {
  const OptimizerFactory lars = [](const std::vector<at::Tensor>& parameters) {
    return std::make_unique<LARS>(parameters, LARSOptions(0.1));
  };
  expect_in("rank 0: LARS: a server has a range of elements", refused({}, {.make_optimizer = lars}));
  expect_in("rank 0: no optimizer", refused({}, {}));
  const auto with_table = [](int) {
    auto model = std::make_shared<torch::nn::Embedding>(torch::nn::EmbeddingOptions(6, 2).sparse(true));
    return std::shared_ptr<torch::nn::Module>(model->ptr());
  };
  expect_in("does not move its rows one by one", refused({}, {.make_optimizer = sgd(0.1, 0.9)}, with_table));
}

TEST(ServerRefusals, RanksThatDoNotComeAreNamed) {
  const auto errors = run_job(3, [](const std::shared_ptr<Store>& store, int rank) {
    if (rank == 1) return;
    ChainImpl model(1);
    const ParameterServerOptions options{.timeout = std::chrono::milliseconds(200)};
    if (rank == 0) {
      ParameterServer server(store, rank, 3, model, options, {.make_optimizer = sgd(0.1)});
    } else {
      ParameterServerClient client(store, rank, 3, model, options);
    }
  });
  for (const std::size_t rank : {0U, 2U}) expect_in("there is no plan of rank 1", message(errors[rank]));
}

TEST(ServerRefusals, AStoreThatARankServesIsRefused) {
  // A process of no launcher has a store in its own memory.
  EXPECT_THROW(parameter_server_store(Launch{}, std::chrono::seconds(1)), InvalidArgumentError);
}

}  // namespace
}  // namespace kolo::test::server

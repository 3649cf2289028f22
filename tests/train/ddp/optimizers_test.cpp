// Optimizers under DistributedDataParallel: four ranks end where one rank with the whole batch ends.
#include "train/support/models.hpp"

#include <gtest/gtest.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "kolo/train/optim.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::ddp {
namespace {

using Parameters = std::vector<at::Tensor>;
using OptimizerFactory = std::function<std::unique_ptr<torch::optim::Optimizer>(const Parameters&)>;

template <typename Optimizer, typename Options>
OptimizerFactory made_with(const Options& options) {
  return [options](const Parameters& parameters) { return std::make_unique<Optimizer>(parameters, options); };
}

const std::map<std::string, OptimizerFactory>& optimizers() {
  using namespace torch::optim;
  static const std::map<std::string, OptimizerFactory> all = {
      {"SGD", made_with<SGD>(SGDOptions(0.1))},
      {"SGD with Nesterov's momentum",
       made_with<SGD>(SGDOptions(0.05).momentum(0.9).nesterov(true).weight_decay(1e-3))},
      {"Adam", made_with<Adam>(AdamOptions(0.01))},
      {"AdamW", made_with<AdamW>(AdamWOptions(0.01).weight_decay(0.1))},
      {"RMSprop", made_with<RMSprop>(RMSpropOptions(0.005).momentum(0.5))},
      {"Adagrad", made_with<Adagrad>(AdagradOptions(0.05))},
      {"LARS", made_with<LARS>(LARSOptions(0.5).trust_coefficient(0.02).weight_decay(1e-3))},
      {"LAMB", made_with<LAMB>(LAMBOptions(0.01).weight_decay(0.01))},
  };
  return all;
}

TEST(Optimizers, FourRanksEndWhereOneEnds) {
  at::set_num_threads(1);
  constexpr std::int64_t kBatch = 8;
  for (const auto& [name, make] : optimizers()) {
    for (const bool is_clipped : {false, true}) {
      Parameters trained[2];
      for (const int ranks : {1, 4}) {
        run_all(ranks, [&](Communicator& communicator) {
          Chain net(1);
          net->to(at::kDouble);
          DistributedDataParallel model(net, communicator, small_buckets());
          const auto optimizer = make(model.parameters());
          const std::int64_t own = kBatch / ranks;
          const auto share = [&](const at::Tensor& all) {
            return all.slice(0, communicator.rank() * own, (communicator.rank() + 1) * own).to(at::kDouble);
          };
          for (int step = 0; step < 50; ++step) {
            optimizer->zero_grad();
            squares(model(share(numbers(kBatch, 8, step))), share(numbers(kBatch, 4, 5))).backward();
            if (is_clipped) clip_gradients(model.parameters(), 0.05);
            optimizer->step();
          }
          EXPECT_TRUE(same_everywhere(communicator, bits(model.parameters()))) << name;
          if (communicator.rank() == 0) trained[ranks == 1 ? 0 : 1] = model.parameters();
        });
      }
      for (std::size_t i = 0; i < trained[0].size(); ++i) {
        EXPECT_TRUE(at::allclose(trained[0][i], trained[1][i], 1e-10, 1e-10)) << name << ", parameter " << i;
      }
    }
  }
}

}  // namespace
}  // namespace kolo::test::ddp

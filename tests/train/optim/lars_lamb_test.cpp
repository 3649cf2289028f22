// LARS and LAMB: the papers' formulas, what is excluded, norms over ranks, saved state, what is refused.
#include <gtest/gtest.h>
#include <torch/serialize.h>

#include <cmath>
#include <functional>
#include <memory>
#include <sstream>

#include "kolo/error.hpp"
#include "kolo/train/optim.hpp"
#include "libtorch/archives.hpp"
#include "train/support/models.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::optim {
namespace {

using Parameters = std::vector<at::Tensor>;
using Values = std::vector<double>;

const LARSOptions kLARS = LARSOptions(2).momentum(0.8).weight_decay(0.01).trust_coefficient(0.02);
const LAMBOptions kLAMB = LAMBOptions(0.05).betas({0.8, 0.95}).weight_decay(0.1);

at::Tensor doubles(std::int64_t rows, std::int64_t columns, double seed) {
  return numbers(rows, columns, seed).to(at::kDouble);
}

at::Tensor weights_of(const at::Tensor& values) {
  return values.clone().set_requires_grad(true);
}

Values values_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().contiguous().view(-1);
  return Values(flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
}

double norm(const Values& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

TEST(LARS, MovesByThePapersFormula) {
  const at::Tensor weights = weights_of(doubles(3, 4, 1)), bias = weights_of(doubles(1, 5, 2).view(-1));
  LARS optimizer(Parameters{weights, bias}, kLARS);
  Values w = values_of(weights), b = values_of(bias), v(w.size()), u(b.size());
  for (int step = 1; step <= 10; ++step) {
    weights.mutable_grad() = doubles(3, 4, step + 5);
    bias.mutable_grad() = doubles(1, 5, step + 9).view(-1);
    const Values g = values_of(weights.grad()), h = values_of(bias.grad());
    const double rate = 2 * 0.02 * norm(w) / (norm(g) + 0.01 * norm(w));
    for (std::size_t i = 0; i < w.size(); ++i) {
      v[i] = 0.8 * v[i] + rate * (g[i] + 0.01 * w[i]);
      w[i] -= v[i];
    }
    for (std::size_t i = 0; i < b.size(); ++i) {  // no rate of its own, no decay
      u[i] = 0.8 * u[i] + 2 * h[i];
      b[i] -= u[i];
    }
    optimizer.step();
    for (std::size_t i = 0; i < w.size(); ++i)
      ASSERT_NEAR(values_of(weights)[i], w[i], 1e-12) << "step " << step;
    for (std::size_t i = 0; i < b.size(); ++i)
      ASSERT_NEAR(values_of(bias)[i], b[i], 1e-12) << "step " << step;
  }
}

TEST(LAMB, MovesByThePapersFormula) {
  const at::Tensor weights = weights_of(doubles(3, 4, 1)), bias = weights_of(doubles(1, 5, 2).view(-1));
  LAMB optimizer(Parameters{weights, bias}, kLAMB);
  struct Layer {
    at::Tensor tensor;
    bool is_adapted;
    Values w, m, v;
  };
  std::vector<Layer> layers = {{weights, true, values_of(weights), Values(12), Values(12)},
                               {bias, false, values_of(bias), Values(5), Values(5)}};
  for (int step = 1; step <= 10; ++step) {
    for (auto& [tensor, is_adapted, w, m, v] : layers) {
      tensor.mutable_grad() = doubles(1, tensor.numel(), step + 5).view(tensor.sizes());
      const Values g = values_of(tensor.grad());
      Values u(w.size());
      for (std::size_t i = 0; i < w.size(); ++i) {
        m[i] = 0.8 * m[i] + 0.2 * g[i];
        v[i] = 0.95 * v[i] + 0.05 * g[i] * g[i];
        u[i] = m[i] / (1 - std::pow(0.8, step)) / (std::sqrt(v[i] / (1 - std::pow(0.95, step))) + 1e-6) +
               (is_adapted ? 0.1 * w[i] : 0);
      }
      const double ratio = is_adapted ? norm(w) / norm(u) : 1;
      for (std::size_t i = 0; i < w.size(); ++i) w[i] -= 0.05 * ratio * u[i];
    }
    optimizer.step();
    for (const auto& layer : layers) {
      for (std::size_t i = 0; i < layer.w.size(); ++i)
        ASSERT_NEAR(values_of(layer.tensor)[i], layer.w[i], 1e-12) << "step " << step;
    }
  }
}

using Make = std::function<std::unique_ptr<torch::optim::Optimizer>(const Parameters&, const SumOverRanks&)>;

/// Both, with layers of one dimension excluded or not.
std::vector<std::pair<std::string, Make>> both(bool exclude_vectors = true) {
  return {
      {"LARS",
       [=](const Parameters& parameters, const SumOverRanks& sum) {
         return std::make_unique<LARS>(parameters, LARSOptions(kLARS).exclude_vectors(exclude_vectors), sum);
       }},
      {"LAMB", [=](const Parameters& parameters, const SumOverRanks& sum) {
         return std::make_unique<LAMB>(parameters, LAMBOptions(kLAMB).exclude_vectors(exclude_vectors), sum);
       }}};
}

TEST(LayerNorms, ALayerInTwoShardsMovesAsTheWholeOne) {
  for (const auto& [name, make] : both(false)) {
    const at::Tensor whole = weights_of(doubles(4, 6, 1).view(-1));
    const auto of_whole = make({whole}, {});
    for (int step = 0; step < 10; ++step) {
      whole.mutable_grad() = doubles(4, 6, step).view(-1);
      of_whole->step();
    }
    run_all(2, [&, &name = name, &make = make](Communicator& communicator) {
      const auto shard_of = [&](const at::Tensor& all) {
        return all.view(-1).narrow(0, 10 * communicator.rank(), communicator.rank() == 0 ? 10 : 14);
      };
      const at::Tensor shard = weights_of(shard_of(doubles(4, 6, 1)));
      int calls = 0;
      const auto optimizer = make({shard}, [&](const Parameters& parameters, std::vector<double>& squares) {
        EXPECT_TRUE(parameters.size() == 1 && parameters[0].is_same(shard));
        EXPECT_EQ(squares.size(), 2u);
        communicator.all_reduce(Buffer(squares));
        ++calls;
      });
      for (int step = 0; step < 10; ++step) {
        shard.mutable_grad() = shard_of(doubles(4, 6, step));
        optimizer->step();
      }
      EXPECT_EQ(calls, 10) << name << ": once a step";
      EXPECT_TRUE(at::allclose(shard, shard_of(whole.detach()), 1e-12, 1e-12)) << name;
    });
  }
}

TEST(LayerNorms, ZerosDoNotDivide) {
  for (const auto& [name, make] : both()) {
    const at::Tensor zero = weights_of(at::zeros({2, 3}, at::kDouble)), still = weights_of(doubles(2, 3, 1)),
                     unused = weights_of(doubles(2, 3, 2));
    const auto optimizer = make({zero, still, unused}, {});
    for (int step = 0; step < 3; ++step) {
      zero.mutable_grad() = doubles(2, 3, step);
      still.mutable_grad() = at::zeros({2, 3}, at::kDouble);
      optimizer->step();
    }
    EXPECT_TRUE(zero.isfinite().all().item<bool>()) << name;
    EXPECT_GT(zero.abs().sum().item<double>(), 0) << name << ": zero weights move";
    EXPECT_TRUE(still.isfinite().all().item<bool>()) << name;
    EXPECT_TRUE(at::equal(unused, doubles(2, 3, 2))) << name << ": without a gradient nothing moves";
  }
}

TEST(LayerNorms, SavedStateGoesOnBitForBit) {
  for (const auto& [name, make] : both()) {
    at::Tensor ended[2];
    for (const bool is_saved : {false, true}) {
      const at::Tensor weights = weights_of(doubles(3, 4, 1)), bias = weights_of(doubles(1, 4, 2).view(-1));
      auto optimizer = make({weights, bias}, {});
      set_learning_rate(*optimizer, 0.04);
      for (int step = 0; step < 8; ++step) {
        if (step == 4 && is_saved) {
          torch::serialize::OutputArchive out;
          train::save_whole(*optimizer, out);
          std::stringstream file;
          out.save_to(file);
          optimizer = make({weights, bias}, {});
          torch::serialize::InputArchive in;
          in.load_from(file);
          train::load_whole(*optimizer, in);  // what Checkpoint and broadcast() do: options too
          EXPECT_EQ(optimizer->param_groups()[0].options().get_lr(), 0.04) << name;
        }
        weights.mutable_grad() = doubles(3, 4, step);
        bias.mutable_grad() = doubles(1, 4, step).view(-1);
        optimizer->step();
      }
      ended[is_saved ? 1 : 0] = at::cat({weights.detach().view(-1), bias.detach()});
    }
    EXPECT_TRUE(at::equal(ended[0], ended[1])) << name;
  }
}

TEST(LayerNorms, SchedulesAndHooksKnowThem) {
  for (const auto& [name, make] : both()) {
    const auto optimizer = make({weights_of(doubles(2, 2, 1))}, {});
    set_momentum(*optimizer, 0.7);
    const OptimizerTraits traits = traits_of(*optimizer);
    EXPECT_EQ(traits.name, name);
    EXPECT_TRUE(traits.has_momentum && traits.has_weight_decay) << name;
    auto& options = optimizer->param_groups()[0].options();
    const auto* lars = dynamic_cast<LARSOptions*>(&options);
    EXPECT_EQ(lars ? lars->momentum() : std::get<0>(dynamic_cast<LAMBOptions&>(options).betas()), 0.7);
  }
}

TEST(LayerNorms, RefuseWhatTheyCannotDo) {
  const Parameters parameters = {weights_of(doubles(2, 3, 1))};
  EXPECT_THROW(LARS(parameters, LARSOptions(-1)), InvalidArgumentError);
  EXPECT_THROW(LARS(parameters, LARSOptions(1).momentum(1)), InvalidArgumentError);
  EXPECT_THROW(LARS(parameters, LARSOptions(1).trust_coefficient(-1)), InvalidArgumentError);
  EXPECT_THROW(LAMB(parameters, LAMBOptions(NAN)), InvalidArgumentError);
  EXPECT_THROW(LAMB(parameters, LAMBOptions(1).betas({0.9, 1})), InvalidArgumentError);
  EXPECT_THROW(LAMB(parameters, LAMBOptions(1).weight_decay(-1)), InvalidArgumentError);
  for (const auto& [name, make] : both()) {
    const at::Tensor first = weights_of(doubles(2, 3, 1)), table = weights_of(doubles(2, 3, 1));
    first.mutable_grad() = doubles(2, 3, 2);
    table.mutable_grad() = doubles(2, 3, 2).to_sparse();
    EXPECT_THROW(make({first, table}, {})->step(), InvalidArgumentError) << name;
    table.mutable_grad() = doubles(2, 3, 2);
    EXPECT_THROW(make({first, table}, [](const Parameters&, Values& squares) { squares.clear(); })->step(),
                 InvalidArgumentError)
        << name;
    EXPECT_TRUE(at::equal(first, doubles(2, 3, 1))) << name << ": a parameter has moved";
  }
}

}  // namespace
}  // namespace kolo::test::optim

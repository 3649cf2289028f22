// Which parameters are whole and which are slices: names, norms, whole values and back.
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <cmath>

#include "kolo/error.hpp"
#include "kolo/train/mixture_of_experts.hpp"
#include "kolo/train/optim.hpp"
#include "kolo/train/parallel_layers.hpp"
#include "train/support/ranks.hpp"
#include "train/tensor/training.hpp"

namespace kolo::test::tensor {
namespace {

/// Layers of which each rank has its own.
struct BranchesImpl : torch::nn::Module, TensorParallelModule {
  BranchesImpl(std::int64_t layers, Communicator& group) {
    const Slice own = slice_of(layers, group.rank(), group.size());
    for (std::int64_t i = own.begin; i < own.end(); ++i)
      register_module(std::to_string(i), torch::nn::Linear(4, 4));
    mark_slices(*this, group);
  }
  bool owns_submodules() const override { return true; }
};
TORCH_MODULE(Branches);

/// A plain layer, a parallel one and branches. Random numbers of the branches are overwritten.
struct MixedImpl : torch::nn::Module {
  MixedImpl(Communicator& group, double seed) : plain(4, 4), layer(nullptr), branches(nullptr) {
    register_module("plain", plain);
    layer = register_module(
        "layer", ParallelTransformerLayer(
                     ParallelTransformerLayerOptions{.width = 4, .heads = 4, .generator = seeded(1)}, group));
    group.barrier();
    branches = register_module("branches", Branches(4, group));
    const c10::NoGradGuard no_grad;
    for (const PlacedParameter& parameter : placed_parameters(*this)) {
      // The same number in each element of a name, whatever the rank.
      parameter.tensor.detach().fill_(seed + static_cast<double>(parameter.name.size()) / 100);
    }
  }
  torch::nn::Linear plain;
  ParallelTransformerLayer layer;
  Branches branches;
};
TORCH_MODULE(Mixed);

/// Ranks are threads, which share the default generator: none may draw while others agree on its state.
Mixed mixed(Communicator& group, double seed) {
  group.barrier();
  Mixed made(group, seed);
  group.barrier();
  return made;
}

const PlacedParameter& named(const std::vector<PlacedParameter>& all, const std::string& name) {
  return *std::ranges::find(all, name, &PlacedParameter::name);
}

TEST(TensorParallelParameters, TellWhatIsWholeAndWhatSliced) {
  run_all(2, [](Communicator& group) {
    const Mixed model = mixed(group, 1);
    const auto all = placed_parameters(*model);
    EXPECT_EQ(all.size(), model->named_parameters().size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i].name, model->named_parameters()[i].key());
      EXPECT_TRUE(all[i].tensor.is_same(model->named_parameters()[i].value()));
    }
    EXPECT_EQ(named(all, "plain.weight").region, Region{});
    EXPECT_EQ(named(all, "layer.mlp.down.bias").region, Region{});
    EXPECT_EQ(named(all, "layer.mlp_norm.weight").region, Region{});
    const auto in = named(all, "layer.attention.in_weight");
    EXPECT_EQ(in.region, (Region{1, Slice{2 * group.rank(), 2}}));
    EXPECT_EQ(in.whole, (std::vector<std::int64_t>{3, 4, 4}));
    EXPECT_EQ(named(all, "layer.mlp.down.weight").region, (Region{1, Slice{8 * group.rank(), 8}}));
    EXPECT_EQ(named(all, "branches." + std::to_string(2 * group.rank()) + ".weight").region, Region{});
  });
}

TEST(TensorParallelParameters, NormsAreThoseOfTheWholeModel) {
  std::vector<double> norms;
  for (const int ranks : {1, 2, 4}) {
    run_all(ranks, [&](Communicator& group) {
      const Mixed model = mixed(group, 1);
      std::vector<at::Tensor> gradients;
      for (const at::Tensor& parameter : model->parameters()) {
        parameter.mutable_grad() = parameter.detach() * 3;
        gradients.push_back(parameter.grad().clone());
      }
      const PlacedModel placed(placed_parameters(*model), group);
      const double norm = clip_gradients(placed, 1e9);
      EXPECT_TRUE(at::equal(model->parameters()[0].grad(), gradients[0])) << "below the limit";
      EXPECT_DOUBLE_EQ(clip_gradients(placed, norm / 2), norm);
      for (std::size_t i = 0; i < gradients.size(); ++i)
        EXPECT_TRUE(at::allclose(model->parameters()[i].grad(), gradients[i] / 2)) << i;
      EXPECT_NEAR(gradient_norm(placed), norm / 2, 1e-4);
      EXPECT_THROW(clip_gradients(placed, 0), InvalidArgumentError);
      if (group.rank() == 0) norms.push_back(norm);
      if (ranks == 1) {
        EXPECT_EQ(clip_gradients(model->parameters(), 1e9), gradient_norm(placed));
      }
    });
  }
  EXPECT_NEAR(norms[1], norms[0], 1e-6 * norms[0]);
  EXPECT_NEAR(norms[2], norms[0], 1e-6 * norms[0]);
}

TEST(TensorParallelParameters, WholeValuesGoToAnotherNumberOfRanks) {
  Whole saved;
  run_all(3, [&](Communicator& group) {
    MixtureOfExperts experts(
        MixtureOfExpertsOptions{.width = 3, .hidden = 2, .experts = 4, .generator = seeded(1)}, group);
    const Whole whole = whole_of(*experts, group);
    EXPECT_EQ(whole.at("up").size(0), 4);
    EXPECT_TRUE(at::equal(whole.at("up").narrow(0, experts->experts.begin, experts->experts.length),
                          experts->up.detach()));
    if (group.rank() == 2) saved = whole;
  });
  run_all(2, [&](Communicator& group) {
    MixtureOfExperts experts(
        MixtureOfExpertsOptions{.width = 3, .hidden = 2, .experts = 4, .generator = seeded(2)}, group);
    EXPECT_FALSE(at::equal(experts->gate, saved.at("gate")));
    load_whole_parameters(placed_parameters(*experts), saved);
    for (const auto& [name, value] : whole_of(*experts, group))
      EXPECT_TRUE(at::equal(value, saved.at(name))) << name;
    Whole wrong = saved;
    wrong["down"] = at::ones({4, 3, 1});
    wrong["gate"] = at::zeros({4, 3});
    EXPECT_THROW(load_whole_parameters(placed_parameters(*experts), wrong), InvalidArgumentError);
    EXPECT_TRUE(at::equal(experts->gate, saved.at("gate"))) << "none has changed";
    wrong.erase("down");
    EXPECT_THROW(load_whole_parameters(placed_parameters(*experts), wrong), InvalidArgumentError);
  });
}

TEST(TensorParallelParameters, WhatOneRankHasIsGatheredToo) {
  run_all(3, [](Communicator& group) {
    const Mixed model = mixed(group, 1);
    const Whole whole = whole_of(*model, group);
    for (int branch = 0; branch < 4; ++branch)
      EXPECT_TRUE(whole.contains("branches." + std::to_string(branch) + ".weight")) << branch;
    const Mixed other = mixed(group, 2);
    load_whole_parameters(placed_parameters(*other), whole);
    for (std::size_t i = 0; i < model->parameters().size(); ++i)
      EXPECT_TRUE(at::equal(other->parameters()[i], model->parameters()[i]));
  });
}

}  // namespace
}  // namespace kolo::test::tensor

// Attention by heads and whole layers, with and without sequences that are divided, equal whole ones.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/group_functions.hpp"
#include "kolo/train/parallel_layers.hpp"
#include "train/support/ranks.hpp"
#include "train/tensor/training.hpp"

namespace kolo::test::tensor {
namespace {

constexpr std::int64_t kWidth = 12, kHeads = 4;

/// Dropout of one process, in the order in which a layer asks for it.
using Drop = std::function<at::Tensor(const at::Tensor&)>;

at::Tensor whole_attention(const Whole& p, const at::Tensor& x, bool causal, const Drop& drop = {}) {
  const std::int64_t samples = x.size(0), time = x.size(1);
  const at::Tensor projected =
      at::linear(x, p.at("attention.in_weight").flatten(0, 1), p.at("attention.in_bias").flatten());
  const at::Tensor heads = projected.view({samples, time, 3, kHeads, -1}).permute({2, 0, 3, 1, 4});
  at::Tensor scores = at::matmul(heads[0], heads[1].transpose(-2, -1)) / std::sqrt(kWidth / kHeads);
  if (causal) {
    scores = scores.masked_fill(at::ones({time, time}, at::kBool).triu(1),
                                -std::numeric_limits<double>::infinity());
  }
  const at::Tensor weights = at::softmax(scores, -1);
  const at::Tensor seen =
      at::matmul(drop ? drop(weights) : weights, heads[2]).transpose(1, 2).reshape({samples, time, kWidth});
  return at::linear(seen, p.at("attention.out.weight"), p.at("attention.out.bias"));
}

at::Tensor whole_norm(const Whole& p, const std::string& name, const at::Tensor& x) {
  return at::layer_norm(x, {kWidth}, p.at(name + ".weight"), p.at(name + ".bias"));
}

at::Tensor whole_layer(const Whole& p, const at::Tensor& x, bool causal, const Drop& attention_drop = {},
                       const Drop& drop = {}) {
  const auto dropped = [&](const at::Tensor& added) { return drop ? drop(added) : added; };
  const at::Tensor attended =
      x + dropped(whole_attention(p, whole_norm(p, "attention_norm", x), causal, attention_drop));
  const at::Tensor hidden =
      at::gelu(at::linear(whole_norm(p, "mlp_norm", attended), p.at("mlp.up.weight"), p.at("mlp.up.bias")));
  return attended + dropped(at::linear(hidden, p.at("mlp.down.weight"), p.at("mlp.down.bias")));
}

/// A layer; between slices of the sequence where it works on those.
Built layer_of(Communicator& group, const ParallelTransformerLayerOptions& options) {
  ParallelTransformerLayer layer(options, group);
  // So that gradients of norms and biases are told from those of zeros.
  const c10::NoGradGuard no_grad;
  for (const auto& norm : {layer->attention_norm, layer->mlp_norm})
    norm->bias.copy_(waves({kWidth}, 3).mul(0.1));
  return {layer.ptr(), [=](const at::Tensor& x) mutable {
            if (!options.sequence) return layer(x);
            const std::int64_t time = x.size(1);
            return gather_from_group(layer->forward(split_to_group(x, 1, group), time), 1, group, time);
          }};
}

ParallelTransformerLayerOptions layer_options(bool sequence, bool causal) {
  return {.width = kWidth,
          .heads = kHeads,
          .hidden = 10,
          .causal = causal,
          .sequence = sequence,
          .generator = seeded(7)};
}

TEST(ParallelTransformer, LayersEqualWholeOnes) {
  for (const bool causal : {false, true}) {
    expect_as_one_process(
        {.build = [&](Communicator& group) { return layer_of(group, layer_options(false, causal)); },
         .plain = [&](const Whole& p, const at::Tensor& x) { return whole_layer(p, x, causal); },
         .input = waves({2, 5, kWidth}, 1),
         .ranks = causal ? std::vector<int>{2, 4} : std::vector<int>{1, 3}});
  }
}

TEST(ParallelTransformer, LayersOnSlicesOfTheSequenceEqualWholeOnes) {
  for (const std::int64_t time : {12, 7}) {  // 7: slices that differ
    expect_as_one_process(
        {.build = [&](Communicator& group) { return layer_of(group, layer_options(true, true)); },
         .plain = [&](const Whole& p, const at::Tensor& x) { return whole_layer(p, x, true); },
         .input = waves({2, time, kWidth}, 1),
         .ranks = time == 12 ? std::vector<int>{1, 2, 4} : std::vector<int>{3, 4}});
  }
}

TEST(ParallelTransformer, Float32IsWithinItsRounding) {
  for (const bool sequence : {false, true}) {
    expect_as_one_process(
        {.build = [&](Communicator& group) { return layer_of(group, layer_options(sequence, true)); },
         .plain = [&](const Whole& p, const at::Tensor& x) { return whole_layer(p, x, true); },
         .input = waves({2, 8, kWidth}, 1),
         .type = at::kFloat,
         .ranks = {4},
         .tolerance = 1e-4});
  }
}

TEST(ParallelTransformer, BFloat16IsWithinItsRounding) {
  run_all(4, [&](Communicator& group) {
    Built built = layer_of(group, layer_options(true, true));
    const at::Tensor x = waves({2, 8, kWidth}, 1).to(at::kFloat);
    const at::Tensor y = built.forward(x).detach();
    built.module->to(at::kBFloat16);
    const at::Tensor input = x.to(at::kBFloat16).set_requires_grad(true);
    const at::Tensor short_y = built.forward(input);
    EXPECT_EQ(short_y.scalar_type(), at::kBFloat16);
    EXPECT_LT(relative_distance(short_y.detach(), y), 3e-2);
    short_y.sum().backward();
    EXPECT_TRUE(at::isfinite(input.grad()).all().item().toBool());
  });
}

/// Dropout takes its numbers from where the initial values left the generator: the one process makes a layer,
/// too, and drops as a group of one rank does.
TEST(ParallelTransformer, DropsWhatOneProcessDrops) {
  for (const bool sequence : {false, true}) {
    auto options = layer_options(sequence, false);
    options.dropout = 0.3;
    options.attention_dropout = 0.2;
    at::Generator of_plain;
    run_all(1, [&](Communicator& alone) {
      auto first = options;
      first.generator = of_plain = seeded(7);
      ParallelTransformerLayer(first, alone);
    });
    expect_as_one_process(
        {.build =
             [&](Communicator& group) {
               auto own = options;
               own.generator = seeded(7);
               return layer_of(group, own);
             },
         .plain =
             [&](const Whole& p, const at::Tensor& x) {
               return whole_layer(
                   p, x, false, [&](const at::Tensor& w) { return split_dropout(w, 0.2, {}, of_plain); },
                   [&](const at::Tensor& y) { return split_dropout(y, 0.3, {}, of_plain); });
             },
         .input = waves({2, 6, kWidth}, 1),
         .ranks = sequence ? std::vector<int>{2, 4} : std::vector<int>{3}});
  }
}

TEST(ParallelTransformer, TrainsWithinDistributedDataParallel) {
  // Two groups of two ranks with a half of the batch each, beside one rank with all of it.
  std::vector<Whole> trained;
  for (const int ranks : {1, 4}) {
    run_all(ranks, [&](Communicator& all) {
      const int tensor = ranks == 1 ? 1 : 2;
      Communicator group = all.split(all.rank() / tensor), data = all.split(all.rank() % tensor);
      auto options = layer_options(true, true);
      options.generator = seeded(7);
      ParallelTransformerLayer layer(options, group);
      layer->to(at::kDouble);
      DistributedDataParallel parallel(layer, data, small_buckets());
      torch::optim::SGD optimizer(parallel.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
      const at::Tensor batch = waves({4, 6, kWidth}, 1), target = waves({4, 6, kWidth}, 2);
      const std::int64_t own = 4 / data.size();
      for (int step = 0; step < 20; ++step) {
        const at::Tensor x = split_to_group(batch.narrow(0, own * data.rank(), own), 1, group);
        const at::Tensor y = gather_from_group(parallel(x), 1, group);
        optimizer.zero_grad();
        squares(y, target.narrow(0, own * data.rank(), own)).backward();
        optimizer.step();
      }
      const Whole whole = whole_of(*layer, group);
      if (all.rank() == 0) trained.push_back(whole);
    });
  }
  for (const auto& [name, value] : trained[0]) {
    EXPECT_LT(relative_distance(trained[1].at(name), value), 1e-10) << name;
  }
}

}  // namespace
}  // namespace kolo::test::tensor
